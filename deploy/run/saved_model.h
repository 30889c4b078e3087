// A checkpoint together with the model that its manifest describes, so that no job is needed to use it.
// Blocks on files; thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_SAVED_MODEL_H_
#define TETHYS_DEPLOY_RUN_SAVED_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/nn/model.h"
#include "runtime/tensor/batch.h"

namespace tethys {

struct SavedModel {
  std::string path;                          // The checkpoint's directory.
  std::unique_ptr<CheckpointReader> reader;  // Reads the checkpoint, whose slot 0 is the parameters.
  Model model;
  // The mean of the workers' moving statistics, in the layout of model.statistics().
  std::vector<float> statistics;

  const proto::ModelDescription& description() const { return reader->manifest().description(); }
};

// Opens a checkpoint. `given`: the checkpoint's path, or a run directory, whose newest checkpoint is opened.
// FailedPrecondition: an old build wrote the checkpoint, without a description of the model. Otherwise fails
// as FindCheckpoint and CheckpointReader do.
absl::StatusOr<SavedModel> OpenSavedModel(const std::string& given);

// The numbers by which the model's inputs are standardised. FailedPrecondition: the checkpoint does not
// contain them, because an old build wrote it.
absl::StatusOr<InputScaling> ScalingOf(const SavedModel& saved);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_SAVED_MODEL_H_
