#include "tests/simulation/process.h"

#include <algorithm>
#include <utility>

#include "runtime/cluster/job_plan.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

// TCP notices only after minutes that a peer has vanished. All simulated jobs end sooner.
constexpr Nanoseconds kNever = 1000 * kSecond;

}  // namespace

std::string Process::name() const {
  const std::string name = TaskName(id_.role, id_.index);
  return incarnation_ <= 1 ? name : absl::StrCat(name, ".", incarnation_);
}

void Process::Do(Event event) {
  if (!alive_) return;
  if (stopped_) {
    waiting_.push_back(std::move(event));
  } else {
    event();
  }
}

void Process::After(Nanoseconds delay, Event event) {
  world_.queue().After(delay, [this, event = std::move(event)]() mutable { Do(std::move(event)); });
}

void Process::EndAs(End end) {
  if (!alive_) return;
  alive_ = false;
  vanished_ = end == End::kVanish;
  waiting_.clear();
  for (const std::shared_ptr<Connection>& connection : connections()) {
    connection->Abandon(connection->IndexOf(*this), end != End::kExit,
                        end == End::kVanish ? kNever : world_.random().Delay(kMillisecond));
  }
  world_.OnProcessEnd(*this, end);
}

void Process::StopFor(Nanoseconds time) {
  if (!alive_ || stopped_) return;
  stopped_ = true;
  world_.queue().After(time, [this] {
    stopped_ = false;
    // An event may stop the process again.
    while (!waiting_.empty() && alive_ && !stopped_) {
      const Event event = std::move(waiting_.front());
      waiting_.pop_front();
      event();
    }
  });
}

std::vector<std::shared_ptr<Connection>> Process::connections() {
  std::vector<std::shared_ptr<Connection>> open;
  for (const std::weak_ptr<Connection>& weak : connections_) {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (connection != nullptr && connection->open(*this)) open.push_back(connection);
  }
  return open;
}

std::shared_ptr<Connection> Connection::Make(World& world, Process& a, Process& b, Use use) {
  std::shared_ptr<Connection> made(new Connection(world, a, b, use));
  a.connections_.push_back(made);
  b.connections_.push_back(made);
  if (!b.alive()) made->Abandon(1, true, b.vanished_ ? kNever : 0);
  return made;
}

void Connection::Send(const Process& from, Process::Event arrival) {
  const int sender = IndexOf(from);
  EndPoint& end = ends_[sender];
  if (!end.open || !from.alive()) return;
  end.last = std::max(end.last, world_.queue().now() + world_.random().Delay(world_.message_delay()));
  world_.queue().At(end.last, [self = shared_from_this(), sender, number = ++end.sent,
                               arrival = std::move(arrival)]() mutable {
    EndPoint& source = self->ends_[sender];
    if (number > source.kept) return;
    source.arrived = number;
    EndPoint& to = self->ends_[1 - sender];
    to.process->Do([self, &to, arrival = std::move(arrival)] {
      if (to.open) arrival();
    });
  });
}

void Connection::Close(const Process& at, const absl::Status& status) {
  const int closer = IndexOf(at);
  if (!std::exchange(ends_[closer].open, false)) return;
  TellClosed(1 - closer, status, 0);
}

void Connection::Break() {
  broken_ = true;
  for (const int end : {0, 1}) LoseSuffix(ends_[end]);
  for (const int end : {0, 1}) {
    TellClosed(end, absl::UnavailableError("the connection broke"),
               world_.random().Delay(world_.message_delay()));
  }
}

void Connection::Abandon(int from, bool loses, Nanoseconds notice) {
  if (loses) LoseSuffix(ends_[from]);
  ends_[from].open = false;
  TellClosed(1 - from,
             absl::UnavailableError(absl::StrCat(ends_[from].process->name(), " closed the connection")),
             notice);
}

void Connection::LoseSuffix(EndPoint& from) {
  from.kept = std::min(from.kept, world_.random().Between(from.arrived, from.sent));
}

void Connection::TellClosed(int to, const absl::Status& status, Nanoseconds notice) {
  const Nanoseconds time =
      std::max(ends_[1 - to].last, world_.queue().now() + world_.random().Delay(world_.message_delay())) +
      notice;
  world_.queue().At(time, [self = shared_from_this(), to, status] {
    EndPoint& end = self->ends_[to];
    end.process->Do([self, &end, status] {
      if (!std::exchange(end.open, false)) return;
      // `closed` is moved out of the connection, because its captures may own the connection.
      const OnClosed closed = std::exchange(end.closed, nullptr);
      if (closed) closed(status);
    });
  });
}

}  // namespace tethys::simulation
