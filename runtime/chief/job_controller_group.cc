// JobController's functions for jobs whose workers form new groups (group_membership.h).
//
//   a stage that needs workers --a member is lost, an exchange fails, a replacement is ready--> kRegroup
//   kRegroup --the new group has formed at step T--> the segment goes on from T, or the stage is repeated
//
// While a save is being opened or committed, it needs no worker. Such a save is completed before the group is
// halted.
//
// Invariant: the first held_.next() steps count; each sample of these steps is in the ledger once and in the
// journal once.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/chief/job_controller.h"
#include "runtime/chief/journal.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/data/sharding.h"

namespace tethys {

// ------------------------------------------------------------------------------------- records that are held

void JobController::HoldSteps(TaskId id, const proto::StepRecords& records, Nanoseconds now,
                              Actions& actions) {
  TaskState& task = roster_.at(id);
  const Nanoseconds clock_offset = task.heartbeat.clock_offset_ns();
  for (const proto::StepRecord& record : records.record()) {
    absl::Status status = CheckRecord(record);
    if (status.ok() && course_.in_segment()) status = held_.Add(id, {record, clock_offset});
    if (!status.ok()) return Fail(Annotate(status, roster_.Describe(id)), id, now);
    task.HasMade(record.step() + 1);
  }
  pulses_.AddSteps(id.index, records);
  std::vector<CountedStep> steps;
  if (!course_.in_segment()) return;
  while (absl::optional<CountedStep> step = held_.TakeComplete()) steps.push_back(*std::move(step));
  int64_t unrecorded = 0;
  if (const absl::Status status = Count(steps, &unrecorded, actions); !status.ok()) Fail(status, id, now);
}

// Enters the steps' samples in the ledger and in the journal. A worker whose record of a step is lost has
// used its samples of the step all the same; the number of such samples is added to `unrecorded`.
absl::Status JobController::Count(const std::vector<CountedStep>& steps, int64_t* unrecorded,
                                  Actions& actions) {
  const Slice whole = running_.segment().positions;
  std::map<int, KeepRecords> kept;
  for (const CountedStep& counted : steps) {
    const auto workers = static_cast<int>(counted.part.size());
    for (int rank = 0; rank < workers; ++rank) {
      const CountedStep::Part& part = counted.part[rank];
      Slice positions =
          StepSlice(whole.count(), planner_.batch(), counted.step - state_.step(), rank, workers);
      positions = {whole.begin + positions.begin, whole.begin + positions.end};
      if (part.held.has_value()) {
        const proto::StepRecord& record = part.held->record;
        positions = running_.Positions(record.sample_begin(), record.samples());
        epoch_sums_.Add(record);
        KeepRecords& keep = kept[part.worker];
        *keep.records.add_record() = record;
        keep.clock_offset = part.held->clock_offset;
        keep.workers = workers;
      } else {
        *unrecorded += positions.count();
      }
      if (CopiesShards(plan_)) {
        proto::AppliedPush push;
        push.set_worker(part.worker);
        push.set_sample_begin(running_.SampleBegin(positions));
        push.set_sample_count(positions.count());
        push.set_version(counted.step + 1);
        held_.NoteCounted(push, ServersWithShards(plan_.placement()));
      }
      TETHYS_RETURN_IF_ERROR(running_.Use(part.worker, positions));
      actions.push_back(WriteJournal{
          journal::Used(part.worker, counted.step, running_.SampleBegin(positions), positions.count())});
    }
  }
  for (auto& [worker, keep] : kept) actions.push_back(std::move(keep));
  WriteCountedPushes(actions);
  return absl::OkStatus();
}

void JobController::WriteCountedPushes(Actions& actions) {
  for (const HeldPush& held : held_.TakePushes()) {
    actions.push_back(WriteJournal{journal::Applied(held.server, held.push)});
  }
}

// ------------------------------------------------------------------------------------------ the next group

// Ends the present stage of the job, so that its workers can be halted. Returns false, and changes nothing,
// if the stage needs no worker now: such a stage is completed before workers are halted.
bool JobController::LeavesStage(Nanoseconds now, Actions& actions) {
  const JobPhase phase = course_.phase();
  if (phase == JobPhase::kRegroup) return true;
  if (phase != JobPhase::kTrain && !group_.broken()) return false;  // A replacement can wait for the barrier.
  if (phase == JobPhase::kSave) {
    if (checkpoints_.state() != CheckpointCoordinator::State::kWriting) return false;
    checkpoints_.Abandon(now, actions);
  }
  pause_.Abandon();
  course_.Regroup(phase == JobPhase::kTrain, phase == JobPhase::kSave);
  return true;
}

// Halts the group if a member is lost, an exchange has failed or a replacement is ready, and forms the next
// group once this is possible. Called whenever one of these conditions may have changed.
void JobController::Regroup(Nanoseconds now, Actions& actions) {
  if (!group_.active() || !course_.training_begun() || course_.ending() || failure_.any()) return;
  using Stage = GroupMembership::Stage;
  if (group_.stage() == Stage::kFormed || group_.stage() == Stage::kForming) {
    if (!MustRegroup() || !LeavesStage(now, actions)) return;
    group_.Halt(held_.next(), now, actions);
    if (const auto blamed = group_.Blamed()) return Lose(blamed->task, blamed->why, now, actions);
  }
  Proceed(now, actions);
}

// True if the group is to be halted. A replacement joins while the group trains, or at a barrier.
bool JobController::MustRegroup() const {
  if (!group_.active() || !course_.training_begun() || failure_.any()) return false;
  return group_.broken() || (group_.grows() && !course_.interrupted());
}

void JobController::Proceed(Nanoseconds now, Actions& actions) {
  const absl::Status status =
      group_.Proceed(held_.next(), losses_.awaits_replacement(), course_.interrupted(), now, actions);
  if (!status.ok()) Fail(status, group_.last_lost(), now);
}

// The number of steps that the parameters contain at the end of the running segment or, if no segment runs,
// at the current barrier.
int64_t JobController::LastStep() const {
  return state_.step() + (course_.in_segment() ? running_.segment().steps : 0);
}

void JobController::OnHalted(TaskId id, const proto::Halted& halted, Nanoseconds now, Actions& actions) {
  TaskState& task = roster_.at(id);
  const bool of_servers = servers_.active() && id.role == proto::PS;
  if ((!group_.active() && !of_servers) || !course_.training_begun()) {
    proto::Failure failure;
    failure.set_message(halted.reason().empty() ? "it left its group" : halted.reason());
    failure.set_step(halted.applied());
    failure.set_status_code(static_cast<int>(absl::StatusCode::kUnavailable));
    return OnFailure(id, failure, now);
  }
  // Ignores an answer about an earlier group: the task has been asked to join a later group since.
  if (task.generation == 0 || halted.generation() != task.generation) return;
  if (of_servers) {
    servers_.OnHalted(id, halted);
    return RegroupServers(now, actions);
  }
  const int64_t most = LastStep();
  const auto impossible = [&](bool has, int64_t steps) {
    return has && (steps < held_.next() || steps > most);
  };
  const bool own = impossible(halted.has_applied(), halted.applied());
  if (own || impossible(halted.has_copy(), halted.copy())) {
    return OnLost(
        id,
        absl::InternalError(absl::StrCat("it has the parameters of ", own ? halted.applied() : halted.copy(),
                                         " steps", own ? "" : " of another server",
                                         ", but this number must be from ", held_.next(), " to ", most)),
        now, actions);
  }
  task.HasMade(halted.applied());
  group_.OnHalted(id, halted);
  Regroup(now, actions);
}

void JobController::GroupFormed(Nanoseconds now, Actions& actions) {
  const std::vector<TaskId> members = roster_.Present(proto::WORKER);
  const int64_t step = group_.step(), again = std::max<int64_t>(0, held_.newest() - step);
  if (step < held_.next() || step > LastStep()) {
    return Fail(absl::InternalError(absl::StrCat("a group has formed at step ", step)), TaskId(), now);
  }
  std::vector<CountedStep> steps;
  while (held_.next() < step) steps.push_back(held_.Take());
  int64_t unrecorded = 0;
  if (const absl::Status status = Count(steps, &unrecorded, actions); !status.ok()) {
    return Fail(status, TaskId(), now);
  }
  held_.Open(members, step);
  for (const proto::Role role : {proto::WORKER, proto::PS}) {
    for (const TaskId id : roster_.Present(role)) {
      if (!losses_.Awaited(id)) continue;
      losses_.Replaced(id, now, actions);
      if (role != proto::PS) continue;
      // The lost server had applied these pushes, as its copy proves, but not reported them.
      for (const HeldPush& held : held_.TakeUnreported(id.index)) {
        actions.push_back(WriteJournal{journal::Applied(held.server, held.push)});
      }
    }
  }
  const proto::GroupChange& change = group_.Changed(again, unrecorded, now, own_.started_ns());
  actions.push_back(WriteJournal{journal::Group(change.generation(), step, members)});
  proto::ProgressEvent event;
  event.set_note(absl::StrFormat("%d of %d workers go on from step %d after %.3f s", members.size(),
                                 plan_.job().workers(), step, change.stall_seconds()));
  actions.push_back(Report{std::move(event)});

  if (!course_.in_segment()) return Continue(now, actions);
  course_.Enter(JobPhase::kTrain);
  const int64_t made = step - state_.step();
  if (course_.interrupted()) running_.CutAfter(made);
  own_.set_first_done_ns(0);
  // Begins a run even if no step is left, because the workers report their moving statistics at its end.
  running_.BeginRun(made);
  for (const TaskId id : members) SendRun(id, actions);
  Regroup(now, actions);  // A replacement may be ready.
}

// Returns the tasks among `silent` that the chief gives up. Tasks that send messages but do not answer are
// given up in CheckMembers; workers that are blamed by others are given up in Regroup.
std::vector<TaskId> JobController::GivenUp(const std::vector<TaskId>& silent, Nanoseconds now) const {
  std::vector<TaskId> given_up;
  for (const TaskId id : silent) {
    const Nanoseconds patience = PatienceFor(id).time;
    bool spared = false;
    if (group_.active()) {
      spared = group_.Spared(id, silent, patience, now);
    } else {
      spared = SparedWithMost(id, silent, patience, now) ||
               (id.role == proto::PS && servers_.Spared(id, silent, patience, now));
    }
    if (!Survives(id) || !spared) given_up.push_back(id);
  }
  return given_up;
}

// If most workers on leases fall silent at once, the chief is probably the one that is cut off.
bool JobController::SparedWithMost(TaskId id, const std::vector<TaskId>& silent, Nanoseconds wait,
                                   Nanoseconds now) const {
  const auto workers =
      std::count_if(silent.begin(), silent.end(), [](TaskId other) { return other.role == proto::WORKER; });
  return 2 * workers > roster_.workers_left() && workers > 1 &&
         now - roster_.at(id).last_heard - wait <= GroupMembership::kMajorityPatience;
}

}  // namespace tethys
