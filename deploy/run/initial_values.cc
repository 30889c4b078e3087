#include "deploy/run/initial_values.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "deploy/run/saved_model.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

bool IsExcepted(const proto::Initial& initial, const std::string& name) {
  return std::any_of(initial.except().begin(), initial.except().end(),
                     [&name](const std::string& part) { return absl::StartsWith(name, part); });
}

// Text about the variables in `there`, such as " (the checkpoint has 'head/weights' of [16, 10], ... and 7
// more)". Variables of the wanted shape come first.
std::string ThereAre(const VariableSet& there, const Shape& wanted) {
  constexpr size_t kMostNamed = 5;
  std::vector<const Variable*> shown;
  for (const Variable& variable : there.variables()) shown.push_back(&variable);
  std::stable_partition(shown.begin(), shown.end(),
                        [&](const Variable* variable) { return variable->shape == wanted; });
  const size_t more = shown.size() - std::min(shown.size(), kMostNamed);
  shown.resize(shown.size() - more);
  const std::string list = absl::StrJoin(shown, ", ", [](std::string* out, const Variable* variable) {
    absl::StrAppend(out, "'", variable->name, "' of ", ShapeText(variable->shape));
  });
  return absl::StrCat(" (the checkpoint has ", list.empty() ? "no variables" : list,
                      more > 0 ? absl::StrCat(" and ", more, " more") : "", ")");
}

// Checks that `there` has every variable of `wanted`, with the same shape, unless initial.except names it.
absl::Status CheckSet(const proto::Initial& initial, const VariableSet& wanted, const VariableSet& there,
                      const std::string& path) {
  for (const Variable& variable : wanted.variables()) {
    if (IsExcepted(initial, variable.name)) continue;
    const Variable* const found = there.Find(variable.name);
    if (found != nullptr && found->shape == variable.shape) continue;
    const std::string what =
        found == nullptr
            ? absl::StrCat(" has no variable '", variable.name, "'", ThereAre(there, variable.shape))
            : absl::StrCat(": '", variable.name, "' has shape ", ShapeText(found->shape));
    return absl::FailedPreconditionError(absl::StrCat("initial.checkpoint: ", path, what,
                                                      ", but the job's model has this variable with shape ",
                                                      ShapeText(variable.shape),
                                                      ": name the variable in initial.except to start from "
                                                      "random values, or use another checkpoint or model"));
  }
  return absl::OkStatus();
}

absl::Status CheckExcept(const proto::Initial& initial, const VariableSet& variables) {
  for (const std::string& part : initial.except()) {
    const auto begins = [&part](const Variable& variable) { return absl::StartsWith(variable.name, part); };
    if (!std::any_of(variables.variables().begin(), variables.variables().end(), begins)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "initial.except: no variable's name begins with \"", part, "\"; the first variable is '",
          variables.variables().front().name, "' (tethys plan --layers lists the layers)"));
    }
  }
  return absl::OkStatus();
}

// A checkpoint, and the variables and statistics of the job that starts from it.
struct Source {
  SavedModel saved;
  VariableSet variables;
  VariableSet statistics;
};

absl::StatusOr<Source> OpenSource(const proto::JobPlan& plan) {
  const proto::Initial& initial = plan.job().initial();
  TETHYS_ASSIGN_OR_RETURN(VariableSet variables, VariablesOf(plan));
  TETHYS_ASSIGN_OR_RETURN(VariableSet statistics, StatisticsOf(plan));
  TETHYS_RETURN_IF_ERROR(CheckExcept(initial, variables));
  absl::StatusOr<SavedModel> saved = OpenSavedModel(initial.checkpoint());
  if (!saved.ok()) return Annotate(saved.status(), "initial.checkpoint");
  TETHYS_RETURN_IF_ERROR(CheckSet(initial, variables, saved->model.variables(), saved->path));
  TETHYS_RETURN_IF_ERROR(CheckSet(initial, statistics, saved->model.statistics(), saved->path));
  return Source{*std::move(saved), std::move(variables), std::move(statistics)};
}

absl::Status WriteParameters(const Source& source, const proto::Job& job, CheckpointWriter& writer) {
  std::vector<float> values;
  for (const Variable& variable : source.variables.variables()) {
    values.resize(variable.range.count);
    if (IsExcepted(job.initial(), variable.name)) {
      source.variables.FillInitialValues(job.seed(), variable.range, values.data());
    } else {
      const Variable& from = *source.saved.model.variables().Find(variable.name);
      TETHYS_RETURN_IF_ERROR(source.saved.reader->Read(0, from.range.begin, absl::MakeSpan(values)));
    }
    TETHYS_RETURN_IF_ERROR(writer.Write(0, variable.range.begin, values));
  }
  return absl::OkStatus();
}

std::vector<float> TakeStatistics(const Source& source, const proto::Job& job) {
  const VariableSet& wanted = source.statistics;
  std::vector<float> values(wanted.arena_size());
  wanted.FillInitialValues(job.seed(), {0, wanted.arena_size()}, values.data());
  for (const Variable& statistic : wanted.variables()) {
    if (IsExcepted(job.initial(), statistic.name)) continue;
    const Variable& from = *source.saved.model.statistics().Find(statistic.name);
    std::copy_n(source.saved.statistics.begin() + from.range.begin, statistic.range.count,
                values.begin() + statistic.range.begin);
  }
  return values;
}

}  // namespace

absl::Status CheckInitialValues(const proto::JobPlan& plan) {
  return plan.job().has_initial() ? OpenSource(plan).status() : absl::OkStatus();
}

absl::Status SaveInitialValues(const proto::JobPlan& plan, const std::string& run_dir) {
  const std::string root = run_dir + "/checkpoints";
  if (!plan.job().has_initial() || FileExists(InitialCheckpoint(root))) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> later, ListCheckpoints(root));
  if (!later.empty()) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(const Source source, OpenSource(plan));
  TETHYS_ASSIGN_OR_RETURN(
      const std::unique_ptr<CheckpointWriter> writer,
      CheckpointWriter::Create(root + "/initial", 0, source.variables, {}, plan.job().name()));
  TETHYS_RETURN_IF_ERROR(WriteParameters(source, plan.job(), *writer));
  proto::TrainingState state;
  state.set_seed(plan.job().seed());
  state.set_train_samples(plan.train_samples());
  return writer->Commit(state, DescribeModel(plan, plan.scaling()),
                        {source.statistics, {.mean = TakeStatistics(source, plan.job())}});
}

}  // namespace tethys
