#include "tests/simulation/simulated_task.h"

#include <utility>

#include "tests/simulation/world.h"

namespace tethys::simulation {

void SimulatedTask::Begin() {
  SimulatedChief& chief = world().chief();
  session_ = Connection::Make(world(), *this, chief, Connection::Use::kSession);
  session_->WhenClosed(*this, [this](const absl::Status& status) { Leave(status); });
  session_->Send(*this, [this, &chief, session = std::weak_ptr(session_)] {
    if (const auto open = session.lock()) chief.Accept(*this, open);
  });
  proto::FromTask join;
  join.mutable_join()->set_host(absl::StrCat("host ", id().index));
  Send(join);
  BeatAgain();
}

void SimulatedTask::BeatAgain() {
  Beat();
  After(world().beat_interval(), [this] { BeatAgain(); });
}

void SimulatedTask::OnOrder(const proto::ToTask& order) {
  if (order.has_pong()) return;
  if (world().traces()) world().Trace(name(), " gets ", order.ShortDebugString().substr(0, 100));
  orders_.push_back(order);
  if (order.has_halt()) OnHalt(order.halt());
  if (order.has_servers()) OnServers();
  Go();
}

void SimulatedTask::Go() {
  while (alive() && !working_) {
    while (course().takes_orders() && !orders_.empty()) {
      proto::ToTask order = std::move(orders_.front());
      orders_.pop_front();
      if (const absl::Status status = course().OnOrder(std::move(order)); !status.ok()) return Leave(status);
      SendAnswers();
    }
    if (course().ended()) return Leave(absl::OkStatus());
    if (course().waits() || !course().busy()) return;
    working_ = true;
    Work();
  }
}

void SimulatedTask::Finished() {
  course().OnDone();
  SendAnswers();
  Resume();
}

void SimulatedTask::Resume() {
  working_ = false;
  Go();
}

void SimulatedTask::Leave(const absl::Status& status) {
  if (!alive()) return;
  world().Trace(name(), " ends: ", StatusText(status));
  Beat();
  if (!status.ok()) {
    proto::FromTask message;
    message.mutable_failure()->set_message(std::string(status.message()));
    message.mutable_failure()->set_status_code(static_cast<int>(status.code()));
    Send(message);
  }
  EndAs(End::kExit);
}

void SimulatedTask::Send(const proto::FromTask& message) {
  session_->Send(*this, [this, message] { world().chief().OnMessage(id(), incarnation(), message); });
}

void SimulatedTask::SendAnswers() {
  for (const proto::FromTask& message : course().TakeMessages()) Send(message);
}

void SimulatedTask::Beat() {
  proto::FromTask beat;
  std::vector<proto::FromTask> before;
  beat.mutable_heartbeat()->set_sent_ns(world().queue().now());
  FillBeat(*beat.mutable_heartbeat(), before);
  for (const proto::FromTask& message : before) Send(message);
  Send(beat);
}

void SimulatedTask::WriteCheckpoint(std::vector<SavedRange> ranges) {
  SimulatedChief& chief = world().chief();
  save_ = Connection::Make(world(), *this, chief, Connection::Use::kSave);
  const int64_t id = course().duty().save().id();
  const auto answered = [this, id](const absl::Status& status) {
    save_->Close(*this, absl::OkStatus());
    proto::FromTask done;
    done.mutable_save_done()->set_id(id);
    if (!status.ok()) done.mutable_save_done()->set_error(StatusText(status));
    Send(done);
    Finished();
  };
  save_->WhenClosed(*this, answered);
  // The chief answers once it has all chunks, with the first error.
  const auto error = std::make_shared<absl::Status>();
  Nanoseconds after = 0;
  for (SavedRange& range : ranges) {
    after += world().random().Delay(kMillisecond);
    After(after, [this, &chief, save = save_, id, error, range = std::move(range)] {
      save->Send(*this, [this, &chief, id, error, range] {
        const absl::Status written = chief.Write(id, range);
        if (error->ok()) *error = written;
        world().disturbances().Reach(Point::kSaving, {this, &chief});
      });
    });
  }
  After(after, [this, &chief, save = save_, answered, error] {
    save->Send(*this, [&chief, save, answered, error] {
      save->Send(chief, [answered, error] { answered(*error); });
    });
  });
}

}  // namespace tethys::simulation
