// Files of weights as PyTorch takes and gives them: safetensors files with the tensors of torch_weights.h.
// All calls block on the disk; one tensor at a time is in memory.
#ifndef TETHYS_DEPLOY_MODEL_FILES_WEIGHTS_FILE_H_
#define TETHYS_DEPLOY_MODEL_FILES_WEIGHTS_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "deploy/model_files/torch_weights.h"
#include "deploy/whole_file.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors.h"

namespace tethys {

// Writes `tensors` to the file, which the caller then commits. `read` gives the elements of a tensor's
// variable, in our layout.
absl::Status WriteTorchWeights(
    WholeFile& file, const std::vector<TorchTensor>& tensors,
    absl::FunctionRef<absl::Status(const TorchTensor& tensor, absl::Span<float> ours)> read);

// A file of weights that is read. Thread-compatible.
class TorchWeightsFile {
 public:
  // DataLoss: the file is no safetensors file, or is cut short.
  static absl::StatusOr<TorchWeightsFile> Open(const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  // The elements of the tensor's variable, in our layout. NotFound: the file has no tensor of that name.
  // InvalidArgument: it has another shape, or is not float32. The messages name file and tensor.
  absl::StatusOr<std::vector<float>> Read(const TorchTensor& tensor) const;

 private:
  TorchWeightsFile() = default;

  std::string path_;
  FileDescriptor fd_;
  int64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_MODEL_FILES_WEIGHTS_FILE_H_
