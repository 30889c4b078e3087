// Reads and writes files of weights for PyTorch: safetensors files with the tensors of torch_weights.h. All
// calls block on the disk; one tensor at a time is in memory.
#ifndef TETHYS_DEPLOY_MODEL_FILES_WEIGHTS_FILE_H_
#define TETHYS_DEPLOY_MODEL_FILES_WEIGHTS_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "deploy/model_files/model_notes.h"
#include "deploy/model_files/torch_weights.h"
#include "deploy/whole_file.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors.h"

namespace tethys {

// Writes `tensors` to the file, with `notes` as metadata; the caller must then commit the file. `read` writes
// the elements of a tensor's variable to `ours`, in our layout.
absl::Status WriteTorchWeights(
    WholeFile& file, const std::vector<TorchTensor>& tensors, const ModelNotes& notes,
    absl::FunctionRef<absl::Status(const TorchTensor& tensor, absl::Span<float> ours)> read);

// A file of weights for reading. Thread-compatible.
class TorchWeightsFile {
 public:
  // DataLoss: the file is no safetensors file, or is cut short.
  static absl::StatusOr<TorchWeightsFile> Open(const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  // Removes a prefix that programs put before the names of a model's modules ("module.", "_orig_mod.",
  // "model.") from the names of the tensors. Does so only if the file has all tensors of `wanted` with this
  // prefix, and does not have all of them without a prefix. Returns the removed prefix; empty if there is
  // none.
  std::string DropPrefix(const std::vector<std::string>& wanted);

  // The elements of the tensor's variable, in our layout. Tensors are float32, or of a type whose values
  // float32 holds exactly: F16, BF16, or F64 with such values. NotFound: the file has no tensor of that name;
  // the message lists its tensors. InvalidArgument: the tensor has another shape, or a type or values that
  // float32 does not hold. The messages name file and tensor.
  absl::StatusOr<std::vector<float>> Read(const TorchTensor& tensor) const;

 private:
  TorchWeightsFile() = default;
  absl::StatusOr<std::vector<float>> ReadFloats(const SafetensorsEntry& entry) const;

  std::string path_;
  FileDescriptor fd_;
  int64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_MODEL_FILES_WEIGHTS_FILE_H_
