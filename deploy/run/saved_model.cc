#include "deploy/run/saved_model.h"

#include <utility>

#include "deploy/run/checkpoint_choice.h"
#include "runtime/checkpoint/model_description.h"

namespace tethys {
namespace {

// `what` completes the sentence "the checkpoint does not ...".
absl::Status OldCheckpoint(const std::string& path, const char* what) {
  return absl::FailedPreconditionError(absl::StrCat(path, " does not ", what,
                                                    ", because an old build wrote this checkpoint: resume "
                                                    "the run for one epoch to save a checkpoint that does"));
}

}  // namespace

absl::StatusOr<SavedModel> OpenSavedModel(const std::string& given) {
  TETHYS_ASSIGN_OR_RETURN(const std::string path, FindCheckpoint(given));
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader, CheckpointReader::Open(path, nullptr));
  const proto::ModelDescription& description = reader->manifest().description();
  if (!description.has_model()) return OldCheckpoint(path, "describe its model");
  const Shape sample_shape(description.sample_shape().begin(), description.sample_shape().end());
  absl::StatusOr<Model> model = Model::Create(description.model(), sample_shape, description.classes());
  if (!model.ok()) return Annotate(model.status(), absl::StrCat(path, ": its model"));
  if (model->variables().signature() != reader->variables().signature()) {
    return absl::DataLossError(absl::StrCat(
        path,
        ": the variables in this checkpoint are not the variables of the model that its manifest describes"));
  }
  MovingStatistics statistics;
  if (!model->statistics().variables().empty()) {
    TETHYS_ASSIGN_OR_RETURN(statistics, reader->ReadStatistics(model->statistics()));
  }
  return SavedModel{.path = path,
                    .reader = std::move(reader),
                    .model = *std::move(model),
                    .statistics = std::move(statistics.mean)};
}

absl::StatusOr<InputScaling> ScalingOf(const SavedModel& saved) {
  if (!saved.description().has_scaling()) {
    return OldCheckpoint(saved.path, "say how inputs are standardised");
  }
  return ScalingOf(saved.description().scaling(), saved.description().float_inputs());
}

}  // namespace tethys
