#include "runtime/chief/starting_state.h"

#include "absl/strings/str_join.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/chief/early_stopping.h"
#include "runtime/chief/segment_planner.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"

namespace tethys {
namespace {

std::string OrderName(const std::string& text) {
  return text.empty() ? "a full shuffle of all samples (shuffle { full {} } sharding: GLOBAL)" : text;
}

// Refuses to resume inside an epoch with another sample order: the remaining positions would stand for other
// samples.
absl::Status CheckSameOrder(const proto::JobPlan& plan, const proto::TrainingState& state,
                            const std::string& path) {
  const std::string order = OrderText(plan);
  if (state.position() == 0 || state.order() == order) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, " was saved at position ", state.position(), " of an epoch, whose order is ",
      OrderName(state.order()), "; the job's order is ", OrderName(order),
      ", so the rest of the epoch would have other samples: resume with the same data.shuffle, "
      "data.sharding, "
      "strategy, workers and batch, or change them at the end of an epoch (checkpoint.every_epochs)"));
}

absl::Status CheckFits(const proto::JobPlan& plan, const proto::TrainingState& state,
                       const std::string& path) {
  if (state.train_samples() != plan.train_samples()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " was trained on ", state.train_samples(),
                                                      " samples, but the job has ", plan.train_samples(),
                                                      ": resume with the same data (data.idx, "
                                                      "data.validation_samples, data.limit_samples)"));
  }
  const int64_t used = SamplesPerEpoch(plan);
  if (state.seed() != plan.job().seed()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " was trained with seed ", state.seed(), ", which gave the initial parameters and ",
        "the sample order; the job has seed ", plan.job().seed(), ": resume with --set=seed=", state.seed()));
  }
  TETHYS_RETURN_IF_ERROR(CheckSameOrder(plan, state, path));
  if (state.position() > 0 && state.position() >= used) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " was saved at position ", state.position(), " of an epoch, but the job uses only the first ",
        used, " samples of an epoch: resume with drop_remainder: false or a smaller batch"));
  }
  return absl::OkStatus();
}

std::string DoneText(const proto::TrainingState& state) {
  std::string text = absl::StrCat(state.epoch(), state.epoch() == 1 ? " epoch" : " epochs");
  if (state.position() > 0) absl::StrAppend(&text, " and ", state.position(), " samples");
  return absl::StrCat(text, " (", state.step(), " steps)");
}

std::string LengthText(const proto::Job& job) {
  std::vector<std::string> limits;
  if (job.epochs() > 0) limits.push_back(absl::StrCat("epochs: ", job.epochs()));
  if (job.max_steps() > 0) limits.push_back(absl::StrCat("max_steps: ", job.max_steps()));
  return absl::StrJoin(limits, ", ");
}

}  // namespace

absl::Status CheckLeftToTrain(const proto::JobPlan& plan, const proto::TrainingState& state, bool succeeded) {
  const proto::Job& job = plan.job();
  if (!SegmentPlanner(plan).Finished(state)) return absl::OkStatus();
  const bool by_epochs = job.epochs() > 0 && state.epoch() >= job.epochs();
  const bool beyond = (by_epochs && (state.epoch() > job.epochs() || state.position() > 0)) ||
                      (job.max_steps() > 0 && state.step() > job.max_steps());
  if (!beyond && !succeeded) return absl::OkStatus();
  if (!by_epochs && SegmentPlanner(plan).StoppedEarly(state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("nothing is left to train: early_stopping ended the job after ", DoneText(state),
                     "; to train on, raise the patience, with --set=early_stopping.patience=",
                     state.early_stopping().epochs_without() + 1, " or more"));
  }
  const std::string remedy = by_epochs ? absl::StrCat("--set=epochs=", state.epoch() + 1)
                                       : absl::StrCat("--set=max_steps=", state.step() + 1);
  return absl::FailedPreconditionError(
      absl::StrCat("nothing is left to train: ", DoneText(state), " are done, and the job has only ",
                   LengthText(job), "; to train on, make the job longer, with ", remedy, " or more"));
}

namespace {

// The beginning of the job, with random initial values.
absl::StatusOr<StartingState> Beginning(const proto::JobPlan& plan, const VariableSet& statistics) {
  StartingState start;
  start.state.set_seed(plan.job().seed());
  start.state.set_train_samples(plan.train_samples());
  start.state.set_global_batch_size(plan.global_batch());
  start.state.set_order(OrderText(plan));
  start.statistics.mean.resize(statistics.arena_size());
  statistics.FillInitialValues(plan.job().seed(), {0, statistics.arena_size()}, start.statistics.mean.data());
  return start;
}

// Opens the checkpoint and reads its moving statistics.
absl::Status OpenReader(const std::string& path, const VariableSet& variables, const VariableSet& statistics,
                        const std::vector<std::string>& slots, StartingState& start) {
  TETHYS_ASSIGN_OR_RETURN(start.reader, CheckpointReader::Open(path, &variables, slots));
  if (statistics.variables().empty()) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(start.statistics, start.reader->ReadStatistics(statistics));
  return absl::OkStatus();
}

absl::Status CheckSlots(const proto::JobPlan& plan, const std::vector<std::string>& slots,
                        const std::string& path, StartingState& start) {
  for (int slot = 1; slot < start.reader->slot_count(); ++slot) {
    if (start.reader->has_slot(slot)) continue;
    // Only a slot of sgd may start at zero here. Other optimizers count the updates since their slots
    // started, or must start their slots with values other than zero.
    if (!plan.job().optimizer().has_sgd()) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " has no slot '", slots[slot - 1],
          "' of the job's optimizer: resume with the optimizer with which it was trained, or with sgd {}"));
    }
    start.notes.push_back(absl::StrCat("warning: ", path, " has no slot '", slots[slot - 1],
                                       "' of the job's optimizer: this slot starts at zero"));
  }
  return absl::OkStatus();
}

absl::Status ResumeFrom(const std::string& path, const proto::JobPlan& plan, const VariableSet& variables,
                        const VariableSet& statistics, const std::vector<std::string>& slots,
                        StartingState& start) {
  TETHYS_RETURN_IF_ERROR(OpenReader(path, variables, statistics, slots, start));
  const proto::TrainingState& saved = start.reader->manifest().state();
  TETHYS_RETURN_IF_ERROR(CheckFits(plan, saved, path));
  const proto::ModelDescription& description = start.reader->manifest().description();
  TETHYS_RETURN_IF_ERROR(CheckSameModel(description, plan.job().model(), path));
  if (plan.has_scaling()) {
    TETHYS_RETURN_IF_ERROR(
        CheckSameScaling(description, ScalingOf(plan.scaling(), plan.float_inputs()), path));
  }
  start.state = saved;
  start.state.set_seed(plan.job().seed());
  start.state.set_global_batch_size(plan.global_batch());
  start.state.set_order(OrderText(plan));
  const proto::Job& job = plan.job();
  if (!ContinueWatch(job.has_early_stopping() ? &job.early_stopping() : nullptr, start.state) &&
      job.has_early_stopping()) {
    start.notes.push_back(
        "early_stopping has another monitor or start_from_epoch than before: early stopping begins anew");
  }
  TETHYS_RETURN_IF_ERROR(CheckSlots(plan, slots, path, start));
  start.notes.push_back(absl::StrCat("resuming from ", path, ": step ", saved.step(), ", after ",
                                     saved.position(), " samples of epoch ", saved.epoch() + 1));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StartingState> FindStartingState(const proto::JobPlan& plan, const VariableSet& variables,
                                                const std::vector<std::string>& slots,
                                                const std::string& root, bool resume) {
  TETHYS_ASSIGN_OR_RETURN(const VariableSet statistics, StatisticsOf(plan));
  TETHYS_ASSIGN_OR_RETURN(StartingState start, Beginning(plan, statistics));
  if (resume) {
    TETHYS_ASSIGN_OR_RETURN(const LatestCheckpoint latest, FindLatestCheckpoint(root));
    for (const DamagedCheckpoint& damaged : latest.damaged) {
      start.notes.push_back(
          absl::StrCat("warning: skipped a damaged checkpoint: ", damaged.path, ": ", damaged.reason));
      start.damaged.push_back(damaged.path);
    }
    if (!latest.path.empty()) {
      TETHYS_RETURN_IF_ERROR(ResumeFrom(latest.path, plan, variables, statistics, slots, start));
      return start;
    }
    start.notes.push_back(absl::StrCat("no checkpoint in ", root, " yet: starting from the beginning"));
  }
  if (!plan.job().has_initial()) return start;
  start.initial = true;
  TETHYS_RETURN_IF_ERROR(OpenReader(InitialCheckpoint(root), variables, statistics, slots, start));
  start.notes.push_back(absl::StrCat("starting with the values of ", plan.job().initial().checkpoint()));
  return start;
}

proto::LogBegin DescribeStart(const proto::JobPlan& plan, const StartingState& start) {
  proto::LogBegin description;
  description.set_job_hash(plan.job_hash());
  *description.mutable_state() = start.state;
  if (start.reader != nullptr) description.set_checkpoint(start.reader->directory());
  description.set_initial(start.initial);
  return description;
}

absl::StatusOr<StartingState> FindStartAgain(const proto::JobPlan& plan, const VariableSet& variables,
                                             const std::vector<std::string>& slots,
                                             const proto::LogBegin& description) {
  if (description.job_hash() != plan.job_hash()) {
    return absl::DataLossError("the log of the lost chief is of another job");
  }
  TETHYS_ASSIGN_OR_RETURN(const VariableSet statistics, StatisticsOf(plan));
  TETHYS_ASSIGN_OR_RETURN(StartingState start, Beginning(plan, statistics));
  start.state = description.state();
  start.initial = description.initial();
  if (!description.checkpoint().empty()) {
    TETHYS_RETURN_IF_ERROR(OpenReader(description.checkpoint(), variables, statistics, slots, start));
  }
  return start;
}

}  // namespace tethys
