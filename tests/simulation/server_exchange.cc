// The exchange with parameter servers: models ParameterServerStrategy and ParameterClient (ps/) as events. A
// push is cut into messages of at most kMostElements, and the server answers each message separately. After a
// broken connection, the worker connects again and repeats the messages that have no answer, with their
// sequence numbers; it does the same when a server was replaced. An exchange that is interrupted, or that
// cannot reach a server, fails once and for all: in the next group the worker has another exchange.
#include <algorithm>
#include <map>
#include <utility>

#include "ps/shard_layout.h"
#include "runtime/cluster/group_place.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/shape/job_shape.h"
#include "runtime/tensor/frame.h"
#include "tests/simulation/exchange.h"
#include "tests/simulation/simulated_server.h"
#include "tests/simulation/simulated_worker.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

constexpr int64_t kMostElements = 8;
constexpr uint64_t kFirstPull = uint64_t{1} << 63;
constexpr int kTries = 5;
constexpr Nanoseconds kPause = 20 * kMillisecond;

class ServerExchange final : public Exchange {
 public:
  ServerExchange(SimulatedWorker& worker, Values& values)
      : worker_(worker),
        values_(values),
        traits_(TraitsOf(world().plan().job())),
        generation_(worker.generation()),
        rank_(traits_.leases() ? worker.id().index : PlaceIn(worker.form().group(), worker.id().index).rank) {
    const proto::Placement& placement = world().plan().placement();
    links_.resize(placement.servers());
    for (int server = 0; server < placement.servers(); ++server) {
      const ShardLayout layout = *ShardLayout::Create(placement, server, world().model().arena_size());
      for (const ShardLayout::Run& run : layout.runs()) {
        const int64_t end = run.arena.end();
        for (int64_t at = run.arena.begin; at < end; at += kMostElements) {
          messages_.push_back({.server = server, .range = {at, std::min(kMostElements, end - at)}});
        }
      }
    }
  }

  void Prepare(Then then) override {
    if (!failed_.ok()) return then(failed_);
    for (size_t server = 0; server < links_.size(); ++server) Connect(static_cast<int>(server));
    Pull(std::move(then));
  }

  void BeginStep(const Step& step, Then then) override {
    step_ = step;
    if (!failed_.ok()) return then(failed_);
    const bool pulls = PullsBeforeStep(config()) || (sequence_ == 0 && !traits_.servers_agree());
    if (!pulls) return then(absl::OkStatus());
    Pull(std::move(then));
  }

  void EndStep(const Step& step, const std::vector<float>& gradient, Then then) override {
    if (!failed_.ok()) return then(failed_);
    ++sequence_;
    then_ = std::move(then);
    pulling_ = false;
    waiting_ = static_cast<int>(messages_.size());
    Nanoseconds after = 0;
    for (size_t i = 0; i < messages_.size(); ++i) {
      Message& message = messages_[i];
      message.answered = false;
      message.sent = false;
      message.frame = MakeFrame(FrameKind::kPush, message.range);
      message.frame.sequence = sequence_;
      message.frame.sample_begin = static_cast<uint64_t>(step.sample_begin);
      message.frame.sample_count = static_cast<uint64_t>(step.samples);
      message.frame.schedule_position = static_cast<uint64_t>(step.schedule_position);
      message.frame.base_version = static_cast<uint64_t>(versions_[message.server]);
      if (traits_.update == UpdateUnit::kPushes) {
        message.frame.global_sample_count = static_cast<uint32_t>(step.global_samples);
      }
      message.payload.clear();
      if (step.samples > 0) {
        const auto begin = gradient.begin() + message.range.begin;
        message.payload.assign(begin, begin + message.range.count);
      }
      message.frame.payload_bytes = message.payload.size() * sizeof(float);
      // Ranges become ready one after the other, while backward runs.
      after += world().random().Between(0, world().step_time() / 16);
      worker_.After(after, [this, i] {
        if (!failed_.ok()) return;
        Send(messages_[i]);
        world().disturbances().Reach(Point::kPushing, {&worker_, world().server(messages_[i].server)});
        if (i + 1 == messages_.size()) {
          world().invariants().OnPushed(worker_.id(), worker_.incarnation(), step_.number);
        }
      });
    }
  }

  void Interrupt() override { Fail(absl::AbortedError("halted")); }

  void Redirect() override {
    for (size_t server = 0; failed_.ok() && server < links_.size(); ++server) {
      const std::shared_ptr<Connection>& connection = links_[server].connection;
      const Process* const newest = world().server(static_cast<int>(server));
      if (connection == nullptr || &connection->other(worker_) == newest) continue;
      connection->Close(worker_, absl::CancelledError("the server was replaced"));
      Connect(static_cast<int>(server));
    }
  }

  void Refresh(Then then) override {
    if (!failed_.ok()) return then(failed_);
    if (traits_.servers_agree()) return then(absl::OkStatus());
    Pull(std::move(then));
  }

  // Takes the answer to a message, or the second answer to a message that was sent twice.
  void OnAnswer(int server, const Frame& frame, const float* values) {
    // An answer to an earlier exchange is ignored. (In the product, each exchange has connections of its
    // own.)
    if (!failed_.ok() || frame.generation != generation_) return;
    links_[server].failures = 0;
    for (Message& message : messages_) {
      if (message.range.begin != static_cast<int64_t>(frame.range_begin)) continue;
      if (message.answered || message.frame.sequence != frame.sequence || message.frame.step != frame.step) {
        return;
      }
      message.answered = true;
      const auto version = static_cast<int64_t>(frame.base_version);
      const auto [lowest, first] = taken_.insert({server, version});
      if (!first) lowest->second = std::min(lowest->second, version);
      if (frame.payload_bytes > 0) {
        std::copy(values, values + message.range.count, values_.parameters.begin() + message.range.begin);
      }
    }
    if (--waiting_ > 0) return;
    if (pulling_ || !PullsBeforeStep(config())) versions_ = taken_;
    taken_.clear();
    std::exchange(then_, nullptr)(absl::OkStatus());
  }

 private:
  struct Message {
    int server = 0;
    Range range;
    bool sent = false, answered = true;
    Frame frame = {};
    std::vector<float> payload = {};
  };
  struct Link {
    std::shared_ptr<Connection> connection;
    int failures = 0;
  };

  World& world() const { return worker_.world(); }
  const proto::ParameterServer& config() const { return world().plan().job().strategy().parameter_server(); }

  // Ends the pending call and all later calls with the error `status`.
  void Fail(const absl::Status& status) {
    if (!failed_.ok()) return;
    failed_ = status;
    for (Link& link : links_) {
      if (link.connection != nullptr) link.connection->Close(worker_, status);
    }
    if (then_) std::exchange(then_, nullptr)(status);
  }

  Frame MakeFrame(FrameKind kind, const Range& range) const {
    Frame frame;
    frame.kind = kind;
    frame.generation = generation_;
    frame.rank = static_cast<uint32_t>(rank_);
    frame.incarnation = worker_.incarnation();
    frame.step = static_cast<uint64_t>(step_.number);
    frame.range_begin = static_cast<uint64_t>(range.begin);
    frame.range_count = static_cast<uint64_t>(range.count);
    return frame;
  }

  void Pull(Then then) {
    then_ = std::move(then);
    pulling_ = true;
    waiting_ = static_cast<int>(messages_.size());
    for (Message& message : messages_) {
      message.answered = false;
      message.frame = MakeFrame(FrameKind::kPull, message.range);
      message.frame.sequence = kFirstPull + pulls_;
      message.payload.clear();
      Send(message);
    }
    ++pulls_;
  }

  void Send(Message& message) {
    message.sent = true;
    const std::shared_ptr<Connection>& connection = links_[message.server].connection;
    auto* const server = static_cast<SimulatedServer*>(&connection->other(worker_));
    connection->Send(worker_, [server, connection, frame = message.frame, payload = message.payload] {
      server->OnFrame(connection, frame, payload);
    });
  }

  void Connect(int server) {
    Link& link = links_[server];
    link.connection = Connection::Make(world(), worker_, *world().server(server), Connection::Use::kData);
    link.connection->WhenClosed(worker_,
                                [this, server](const absl::Status& status) { OnClosed(server, status); });
    auto* const to = static_cast<SimulatedServer*>(&link.connection->other(worker_));
    link.connection->Send(
        worker_, [this, to, connection = link.connection] { to->OnConnection(worker_, connection); });
    if (world().Misbehaves(Fault::kNoRepeat, 1)) return;
    for (Message& message : messages_) {
      if (message.server != server || !message.sent || message.answered) continue;
      if (world().Misbehaves(Fault::kNewSequence, 1)) ++message.frame.sequence;
      Send(message);
    }
  }

  void OnClosed(int server, const absl::Status& status) {
    Link& link = links_[server];
    // A lost server with a copy is replaced. In lock step, the chief then halts the workers.
    const bool replaced = CopiesShards(world().plan()) && traits_.leases();
    if (!absl::IsUnavailable(status) || (++link.failures > kTries && !replaced)) {
      const absl::Status named = Annotate(status, absl::StrCat("server ", server));
      return FormsNewGroups(world().plan()) ? Fail(named) : worker_.Leave(named);
    }
    worker_.After(kPause << (std::min(link.failures, kTries) - 1), [this, server, closed = link.connection] {
      if (failed_.ok() && links_[server].connection == closed) Connect(server);
    });
  }

  SimulatedWorker& worker_;
  Values& values_;
  const ShapeTraits& traits_;
  const uint32_t generation_;
  const int rank_;
  absl::Status failed_;
  std::vector<Link> links_;  // One link for each server.
  std::vector<Message> messages_;
  Step step_;
  uint64_t sequence_ = 0, pulls_ = 0;
  // For each server, the lowest version among its answers: `versions_` in the last call that fetched
  // parameters, `taken_` in the current call.
  std::map<int, int64_t> versions_, taken_;
  bool pulling_ = false;
  int waiting_ = 0;  // Messages without an answer.
  Then then_;
};

}  // namespace

std::unique_ptr<Exchange> CreateServerExchange(SimulatedWorker& worker, Values& values) {
  auto exchange = std::make_unique<ServerExchange>(worker, values);
  worker.on_answer = [made = exchange.get()](int server, const Frame& frame, const float* parameters) {
    made->OnAnswer(server, frame, parameters);
  };
  return exchange;
}

}  // namespace tethys::simulation
