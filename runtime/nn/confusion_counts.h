// The confusion matrix of an evaluation, in device memory: for each pair of classes (a, b), the number of
// labels of class a for which the model predicted class b. Used by a plan, on the device's thread.
#ifndef TETHYS_RUNTIME_NN_CONFUSION_COUNTS_H_
#define TETHYS_RUNTIME_NN_CONFUSION_COUNTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace tethys {

class ConfusionCounts {
 public:
  // Creates counts that are all 0. `device` and `stream` must outlive the counts.
  static absl::StatusOr<std::unique_ptr<ConfusionCounts>> Create(Device& device, Stream& stream,
                                                                 int64_t classes);

  // The counts [classes, classes], laid out like LossTensors::confusion.
  int64_t* data() { return static_cast<int64_t*>(memory_->data()); }
  int64_t bytes() const { return memory_->bytes(); }

  // Returns the counts of all work that was enqueued before the call, and sets the counts to 0. Blocks until
  // that work is done.
  absl::StatusOr<std::vector<int64_t>> Take();

 private:
  ConfusionCounts(Device& device, Stream& stream) : device_(device), stream_(stream) {}
  absl::Status Clear();

  Device& device_;
  Stream& stream_;
  std::unique_ptr<Buffer> memory_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_CONFUSION_COUNTS_H_
