// statistics.safetensors: the file of a checkpoint that holds the model's moving statistics. For each
// statistic, a tensor of the same name holds the mean over the workers. With several workers, the tensor
// "workers" holds the statistics of each worker; its shape is [workers, elements of all statistics]. All
// calls block on the disk.
#ifndef TETHYS_RUNTIME_CHECKPOINT_STATISTICS_FILE_H_
#define TETHYS_RUNTIME_CHECKPOINT_STATISTICS_FILE_H_

#include <string>

#include "proto/checkpoint.pb.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/moving_statistics.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Writes the file into `directory`, syncs it, and lists it in the manifest. InvalidArgument: a value is not
// finite (the message names the tensor), or the size of `statistics` differs from the size of `set`.
absl::Status WriteStatisticsFile(const std::string& directory, const VariableSet& set,
                                 const MovingStatistics& statistics, proto::CheckpointManifest& manifest);

// Reads the file that the manifest lists in CheckpointManifest::statistics. FailedPrecondition: the manifest
// lists no such file, or the file has the statistics of another model than `set`; the message names the first
// statistic that differs. DataLoss: the file is damaged.
absl::StatusOr<MovingStatistics> ReadStatisticsFile(const std::string& directory, const VariableSet& set,
                                                    const proto::CheckpointManifest& manifest);

// DataLoss: the file that the manifest lists is damaged. OK if the manifest lists none.
absl::Status VerifyStatisticsFile(const std::string& directory, const proto::CheckpointManifest& manifest);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_STATISTICS_FILE_H_
