#include "runtime/nn/confusion_counts.h"

namespace tethys {

absl::StatusOr<std::unique_ptr<ConfusionCounts>> ConfusionCounts::Create(Device& device, Stream& stream,
                                                                         int64_t classes) {
  std::unique_ptr<ConfusionCounts> counts(new ConfusionCounts(device, stream));
  const int64_t bytes = classes * classes * static_cast<int64_t>(sizeof(int64_t));
  TETHYS_ASSIGN_OR_RETURN(counts->memory_, device.Allocate(bytes, MemoryKind::kDevice));
  TETHYS_RETURN_IF_ERROR(counts->Clear());
  return counts;
}

absl::Status ConfusionCounts::Clear() {
  const std::vector<int64_t> zeros(bytes() / sizeof(int64_t));
  TETHYS_RETURN_IF_ERROR(device_.CopyToDevice(stream_, memory_->data(), zeros.data(), bytes()));
  return stream_.Synchronize();
}

absl::StatusOr<std::vector<int64_t>> ConfusionCounts::Take() {
  std::vector<int64_t> counts(bytes() / sizeof(int64_t));
  TETHYS_RETURN_IF_ERROR(device_.CopyToHost(stream_, counts.data(), memory_->data(), bytes()));
  TETHYS_RETURN_IF_ERROR(stream_.Synchronize());
  TETHYS_RETURN_IF_ERROR(Clear());
  return counts;
}

}  // namespace tethys
