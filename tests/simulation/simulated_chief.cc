#include "tests/simulation/simulated_chief.h"

#include <algorithm>
#include <utility>

#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/sharding.h"
#include "tests/runtime/chief/action_text.h"
#include "tests/simulation/simulated_task.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

constexpr Nanoseconds kTick = 100 * kMillisecond;
constexpr double kRestoredShare = 0.03;  // The share of events at which the controller is restored.

std::string StateOf(const JobController& controller) {
  proto::ChiefState state;
  controller.Save(state);
  return state.SerializeAsString();
}

absl::StatusOr<std::unique_ptr<JobController>> Restored(const proto::JobPlan& plan,
                                                        const std::string& bytes) {
  proto::ChiefState state;
  if (!state.ParseFromString(bytes)) return absl::InternalError("the state cannot be parsed");
  return JobController::Restore(plan, state);
}

}  // namespace

SimulatedChief::SimulatedChief(World& world, const proto::TrainingState& state, bool restore)
    : Process(world, {proto::CHIEF, 0}, 1),
      controller_(std::make_unique<JobController>(world.plan(), state, restore,
                                                  StatisticsBook(world.plan().job().workers(), {}),
                                                  world.queue().now())) {}

void SimulatedChief::Begin() {
  After(kTick, [this] { Tick(); });
}

void SimulatedChief::Tick() {
  Step([this](JobController& controller, Actions& actions) {
    controller.OnTick(world().queue().now(), actions);
  });
  if (interrupted_) {
    Step([this](JobController& controller, Actions& actions) {
      controller.OnInterrupt(world().queue().now(), actions);
    });
  }
  if (world().Misbehaves(Fault::kNoHolderPatience, 1)) GiveUpTheSilent();
  HandOnJournal();
  After(kTick, [this] { Tick(); });
}

// ---------------------------------------------------------------------------------------------- sessions

void SimulatedChief::Accept(SimulatedTask& task, const std::shared_ptr<Connection>& session) {
  const absl::Status status = ended_
                                  ? absl::AbortedError("the job has ended")
                                  : controller_->Admit(task.id(), task.incarnation(), world().queue().now());
  world().Trace("chief admits ", task.name(), ": ", StatusText(status));
  if (!status.ok()) return session->Close(*this, status);
  sessions_[task.id()] = {session, &task, task.incarnation()};
  session->WhenClosed(*this, [this, &task](const absl::Status&) {
    world().Trace("chief: the session of ", task.name(), " has ended");
    Step([this, &task](JobController& controller, Actions& actions) {
      controller.OnGone(task.id(), task.incarnation(), world().queue().now(), actions);
    });
  });
}

void SimulatedChief::OnMessage(TaskId task, uint32_t incarnation, const proto::FromTask& arrived) {
  proto::FromTask message = arrived;
  Misbehave(task, message);
  if (world().traces() && !message.has_heartbeat()) {
    world().Trace("chief gets of ", TaskName(task.role, task.index), ": ",
                  message.ShortDebugString().substr(0, 100));
  }
  if (incarnation == controller_->incarnation(task)) world().invariants().OnAnswer(task, message);
  Step([&](JobController& controller, Actions& actions) {
    controller.OnMessage(task, incarnation, message, world().queue().now(), actions);
  });
  Process* const sender = sessions_.count(task) > 0 ? sessions_.at(task).task : nullptr;
  std::vector<Process*> near = {this};
  if (sender != nullptr) near.push_back(sender);
  Disturbances& disturbances = world().disturbances();
  if (message.has_join()) disturbances.Reach(Point::kJoined, near);
  if (message.has_steps()) disturbances.Reach(Point::kFirstRecord, near);
  if (message.has_halted()) disturbances.Reach(Point::kHalting, near);
  if (message.has_run_done()) disturbances.Reach(Point::kFirstDone, near);
}

void SimulatedChief::SendTo(const Session& session, const proto::ToTask& order) {
  session.connection->Send(*this, [task = session.task, order] { task->OnOrder(order); });
}

// --------------------------------------------------------------------------------------------- the events

void SimulatedChief::Step(const Event& event) {
  if (ended_ || !alive()) return;
  Actions actions;
  if (world().random().Chance(kRestoredShare)) {
    StepRestored(event, actions);
  } else {
    event(*controller_, actions);
  }
  for (Action& action : actions) absl::visit([this](auto& what) { Do(what); }, action);
}

void SimulatedChief::StepRestored(const Event& event, Actions& actions) {
  std::string state = StateOf(*controller_);
  const bool old = !older_state_.empty() && world().Misbehaves(Fault::kOldState, 0.3);
  absl::StatusOr<std::unique_ptr<JobController>> restored =
      Restored(world().plan(), old ? older_state_ : state);
  older_state_ = std::move(state);
  if (!restored.ok()) return world().Broken("the chief's state: ", StatusText(restored.status()));
  event(**restored, actions);
  if (!old) {
    Actions expected;
    event(*controller_, expected);
    const std::string own = FullText(expected), text = FullText(actions);
    if (own != text) world().Broken("a restored chief acts otherwise:\n", text, "\ninstead of:\n", own);
    if (StateOf(*controller_) != StateOf(**restored)) world().Broken("a restored chief has another state");
  }
  controller_ = *std::move(restored);
}

// -------------------------------------------------------------------------------------------- the actions

void SimulatedChief::Do(SendOrder& action) {
  const uint32_t incarnation = controller_->incarnation(action.task);
  if (!action.order.has_pong()) world().invariants().OnOrder(action.task, incarnation, action.order);
  if (action.order.has_setup()) action.order.mutable_setup()->set_restore_slots(true);
  const auto session = sessions_.find(action.task);
  if (session == sessions_.end() || session->second.incarnation != incarnation) return;
  if (Drops(action.task, action.order)) return;
  SendTo(session->second, action.order);
  if (action.order.has_lease() && world().Misbehaves(Fault::kDoubledLease, 0.02)) {
    SendTo(session->second, action.order);
  }
  Disturbances& disturbances = world().disturbances();
  if (action.order.has_pause()) disturbances.Reach(Point::kPausing, {this, session->second.task});
  if (action.order.has_stop()) disturbances.Reach(Point::kStopping, {this, session->second.task});
}

void SimulatedChief::Do(WriteJournal& action) {
  journal_ += action.line;
  world().Trace("journal: ", action.line.substr(0, action.line.size() - 1));
  world().invariants().OnJournalLine(action.line);
}

void SimulatedChief::HandOnJournal() { world().disk().journal() += std::exchange(journal_, {}); }

void SimulatedChief::Do(Report& action) {
  world().invariants().OnProgress(action.event);
  if (action.event.has_started()) world().disturbances().TrainingBegins();
  if (action.event.has_task_lost()) world().EndLostTask(action.event.task_lost());
}

void SimulatedChief::Do(OpenSave& action) {
  After(world().random().Delay(kMillisecond), [this, id = action.id, state = action.state] {
    const bool full = world().disturbances().disk_is_full();
    if (!full) world().disk().Open(id, state);
    After(world().random().Delay(kMillisecond), [this, full] {
      Step([this, full](JobController& controller, Actions& actions) {
        const absl::Status opened = full ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
        controller.SaveOpened(opened, world().queue().now(), actions);
      });
    });
  });
}

absl::Status SimulatedChief::Write(int64_t save, const SavedRange& range) {
  if (world().disturbances().disk_is_full()) return absl::ResourceExhaustedError("disk full");
  return world().disk().Write(save, range);
}

void SimulatedChief::Do(CommitSave&) {
  const bool early = world().Misbehaves(Fault::kCommitBeforeJournal, 1);
  if (!early) HandOnJournal();
  world().disturbances().Reach(Point::kCommitting, {this});
  After(world().random().Delay(2 * kMillisecond), [this] {
    const bool full = world().disturbances().disk_is_full();
    if (!world().disk().saving()) return world().Broken("a save is committed that is not open");
    if (full) {
      world().disk().Abandon();
    } else {
      world().invariants().OnCommit(world().disk().Commit());
    }
    world().disturbances().Reach(Point::kCommitting, {this});
    After(world().random().Delay(kMillisecond), [this, full] {
      Step([this, full](JobController& controller, Actions& actions) {
        const absl::Status committed = full ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
        controller.SaveCommitted(committed, "checkpoint", world().queue().now(), actions);
      });
    });
  });
}

void SimulatedChief::Do(AbandonSave&) { world().disk().Abandon(); }

void SimulatedChief::Do(EndJob& action) {
  HandOnJournal();
  ended_ = true;
  world().OnJobEnd(action.status, action.culprit);
}

// ---------------------------------------------------------------------------------------- deliberate faults

void SimulatedChief::Misbehave(TaskId task, proto::FromTask& message) {
  heard_[task] = world().queue().now();
  if (message.has_halted() && message.halted().has_applied()) {
    if (world().Misbehaves(Fault::kCountsAtHalted, 1)) Forge(group_, task, message.halted().applied());
    last_applied_[task.index] = message.halted().applied();
  }
  if (message.has_steps() && task.role == proto::WORKER) {
    // Drops the records of steps for which records of this worker were forged.
    proto::StepRecords records;
    for (const proto::StepRecord& record : message.steps().record()) {
      if (record.step() >= recorded_[task.index]) *records.add_record() = record;
    }
    const bool forges =
        world().Misbehaves(Fault::kCountsFirstRecord, 1) || world().Misbehaves(Fault::kCountsAtHalted, 1);
    if (forges) message.mutable_steps()->Swap(&records);
    for (const proto::StepRecord& record : message.steps().record()) {
      recorded_[task.index] = record.step() + 1;
    }
    if (world().Misbehaves(Fault::kCountsFirstRecord, 1)) Forge(group_, task, recorded_[task.index]);
  }
  if (message.has_save_done() && world().Misbehaves(Fault::kEarlyCommit, 0.5)) {
    for (const auto& [other, session] : sessions_) {
      if (other.role != task.role || other == task) continue;
      Step([&, other = other](JobController& controller, Actions& actions) {
        controller.OnMessage(other, controller.incarnation(other), message, world().queue().now(), actions);
      });
    }
  }
}

void SimulatedChief::Forge(const proto::Group& group, TaskId by, int64_t steps) {
  const proto::JobPlan& plan = world().plan();
  if (run_.begin() == run_.end()) return;  // Training has not begun: no step can be recorded.
  for (int rank = 0; rank < group.member_size(); ++rank) {
    const TaskId worker{proto::WORKER, group.member(rank).index()};
    if (worker == by) continue;
    proto::FromTask message;
    const int64_t first = std::max(recorded_[worker.index], run_.first_step());
    for (int64_t step = first; step < steps; ++step) {
      const Slice slice = StepSlice(run_.end() - run_.begin(), plan.global_batch(), step - run_.first_step(),
                                    rank, group.member_size());
      proto::StepRecord& record = *message.mutable_steps()->add_record();
      record.set_rank(worker.index);
      record.set_step(step);
      record.set_epoch(run_.epoch());
      record.set_samples(slice.count());
      record.set_labels(slice.count());
      record.set_sample_begin(JobPosition(run_.epoch(), EpochLength(plan), run_.begin() + slice.begin));
    }
    recorded_[worker.index] = std::max(recorded_[worker.index], steps);
    if (!message.has_steps()) continue;
    Step([&](JobController& controller, Actions& actions) {
      controller.OnMessage(worker, controller.incarnation(worker), message, world().queue().now(), actions);
    });
  }
}

void SimulatedChief::TrustOldAnswers(proto::Form& form) const {
  const google::protobuf::RepeatedField<int32_t> behind = form.behind();
  form.clear_behind();
  for (const int rank : behind) {
    const auto said = last_applied_.find(form.group().member(rank).index());
    if (said == last_applied_.end() || said->second != form.step()) form.add_behind(rank);
  }
}

void SimulatedChief::GiveUpTheSilent() {
  for (const auto& [id, session] : sessions_) {
    if (id.role != proto::WORKER || world().queue().now() - heard_[id] < kSecond) continue;
    Step([&, id = id, incarnation = session.incarnation](JobController& controller, Actions& actions) {
      controller.OnGone(id, incarnation, world().queue().now(), actions);
    });
  }
}

bool SimulatedChief::Drops(TaskId task, proto::ToTask& order) {
  if (order.has_fence() && !order.fence().takes_part() && world().Misbehaves(Fault::kEarlySettled, 1)) {
    proto::FromTask answer;
    answer.mutable_fenced()->set_worker(order.fence().worker());
    answer.mutable_fenced()->set_incarnation(order.fence().incarnation());
    After(0, [this, task, answer] {
      Step([&](JobController& controller, Actions& actions) {
        controller.OnMessage(task, 1, answer, world().queue().now(), actions);
      });
    });
  }
  if (order.has_form()) {
    if (world().Misbehaves(Fault::kOldAnswer, 1)) TrustOldAnswers(*order.mutable_form());
    group_ = order.form().group();
  }
  if (order.has_run()) {
    run_ = order.run();
    recorded_[task.index] = run_.first_step();
  }
  if (order.has_halt() && world().Misbehaves(Fault::kForgetsHalt, 0.2)) return true;
  if (order.has_cut() && order.cut().steps() > 0 && world().Misbehaves(Fault::kEarlyCut, 0.5)) {
    order.mutable_cut()->set_steps(order.cut().steps() - 1);
  }
  return order.has_pause() && world().Misbehaves(Fault::kLostPause, 0.5);
}

}  // namespace tethys::simulation
