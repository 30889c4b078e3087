// The common part of the verbs that run a checkpoint's model over data, `evaluate` and `predict`. Blocks on
// files; thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_CHECKPOINT_USE_H_
#define TETHYS_DEPLOY_RUN_CHECKPOINT_USE_H_

#include <memory>
#include <string>
#include <vector>

#include "deploy/flags/flags.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/data/dataset.h"
#include "runtime/nn/model.h"
#include "workers/replica.h"

namespace tethys {

// The flags --checkpoint, --split (with `splits` as its help), --device, --cuda_library_path, --secrets and
// --set.
std::vector<FlagSpec> CheckpointUseFlags(const std::string& splits);

// The job file that the user names, or else the job file of the run that holds the checkpoint.
// InvalidArgument: there is no job file.
absl::StatusOr<std::string> JobFileOf(const Flags& flags, const std::string& checkpoint);

// The job in the file that JobFileOf returns, with the changes of --set.
absl::StatusOr<proto::Job> JobOf(const Flags& flags, const std::string& checkpoint);

// The dataset of `split`: "test", "validation" or "train". InvalidArgument: `split` is another name, or the
// job's data have no such split.
absl::StatusOr<std::shared_ptr<const Dataset>> ChooseSplit(const Datasets& datasets,
                                                           const std::string& split);

// The names of the classes of a checkpoint's model, in the order of their numbers: the names in the
// checkpoint or, if the checkpoint has none, the names in the data of `job` (null: there is no job). Returns
// an empty list if there are no names.
absl::StatusOr<std::vector<std::string>> ClassNamesIn(const proto::ModelDescription& saved,
                                                      const proto::Job* job);

// The exit status after a pass over samples has failed with `status`: kExitBadRequest if a sample cannot be
// read or does not fit the model, otherwise kExitFailed.
int ExitStatusOf(const absl::Status& status);

// The device that the flags name.
struct ChosenDevice {
  proto::Device::Kind kind = proto::Device::CPU;
  std::vector<std::string> cuda_library_path = {};
};
absl::StatusOr<ChosenDevice> ChooseDevice(const Flags& flags);

// A replica that evaluates `rows` samples at a time with the checkpoint's parameters. `settings`: the
// settings of the device, such as the precision.
absl::StatusOr<std::unique_ptr<Replica>> LoadReplica(const CheckpointReader& reader, const Model& model,
                                                     const ChosenDevice& device,
                                                     const proto::Device& settings, int64_t rows,
                                                     const InputScaling& scaling);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_CHECKPOINT_USE_H_
