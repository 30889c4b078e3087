// The mean and deviation of training samples, computed once per host and kept in the host's cache beside the
// samples, as a text that also names their origin:
//
//   samples KEY, the first N, bytes, 1 channel
//   of FIELDS OF THE JOB'S DATA
//   mean NUMBER...
//   deviation NUMBER...
//   CRC-32C of the text before it
//
// Numbers have nine digits, which determine all bits of a float.
#ifndef TETHYS_RUNTIME_DATA_KEPT_SCALING_H_
#define TETHYS_RUNTIME_DATA_KEPT_SCALING_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/tensor/batch.h"

namespace tethys {

class KeptScaling {
 public:
  // The samples from which mean and deviation are computed.
  struct Origin {
    proto::Data data;     // For people who read the file; only `key` is compared.
    std::string key;      // The text of SamplesKey (kept_samples.h).
    int64_t samples = 0;  // The number of samples that are summed: the training split.
    int64_t channels = 1;
    ValueType type = ValueType::kByte;
  };

  // `cache_dir` is the `folder` that HostCache::Open gets.
  KeptScaling(std::string cache_dir, Origin origin)
      : cache_dir_(std::move(cache_dir)), origin_(std::move(origin)) {}

  // Reads the stored value, and writes nothing. nullopt: no value is stored, or the file is damaged.
  absl::optional<InputScaling> Find() const;

  using Compute = absl::FunctionRef<absl::StatusOr<InputScaling>(absl::FunctionRef<void()> progressed)>;
  // Returns the stored value. If there is none, calls `compute`, and stores the result if the cache can be
  // used. Other processes wait until the value is stored. The only errors are the errors of `compute`.
  absl::StatusOr<InputScaling> FindOrMake(Compute compute) const;

 private:
  std::string Name() const;
  std::string Head() const;
  absl::optional<InputScaling> Read(const std::string& path) const;

  const std::string cache_dir_;
  const Origin origin_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_KEPT_SCALING_H_
