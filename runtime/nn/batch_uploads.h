// Brings batches to a device that does not read the host's memory, while it computes: each is copied on a
// stream of its own into one of two slots and, when its step begins, from there to where the step reads it.
// That place is always the same, so one captured graph of a step serves all batches.
//
//   uploads.Upload(next batch);            // while a step computes
//   uploads.Take();                        // the step's stream goes on with it
//   ... work on the stream reads uploads.batch()
//
// Used by a plan, on the device's thread. Only AwaitUploads blocks.
#ifndef TETHYS_RUNTIME_NN_BATCH_UPLOADS_H_
#define TETHYS_RUNTIME_NN_BATCH_UPLOADS_H_

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/device/device.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// Invariants:
//  1. taken <= uploaded <= taken + 2.
//  2. Batch k lies in slot k mod 2. It is written once the step's stream has read batch k - 2 from there, and
//     read once it is written.
class BatchUploads {
 public:
  // `stream` is the one that computes. Both outlive the uploads.
  static absl::StatusOr<std::unique_ptr<BatchUploads>> Create(Device& device, Stream& stream,
                                                              const BatchLayout& layout);

  // Requires a batch laid out as the others, and fewer than two that were not taken. Pinned memory must stay
  // as it is until AwaitUploads.
  absl::Status Upload(const HostBatch& batch);

  // The oldest batch that was uploaded is in batch() for what is put on the stream from now on. Requires one.
  absl::Status Take();

  // Blocks until all batches uploaded have left the host's memory.
  absl::Status AwaitUploads();

  // Device memory.
  HostBatch batch() { return layout_.At(memory_->data()); }
  int64_t bytes() const { return 3 * layout_.bytes(); }

 private:
  struct Slot {
    std::unique_ptr<Buffer> memory;
    std::unique_ptr<Event> written;
    std::unique_ptr<Event> read;
  };

  BatchUploads(Device& device, Stream& stream, const BatchLayout& layout)
      : device_(device), stream_(stream), layout_(layout) {}
  absl::Status Allocate();
  Slot& SlotOf(int64_t batch) { return slots_[batch % 2]; }

  Device& device_;
  Stream& stream_;
  const BatchLayout layout_;
  std::unique_ptr<Stream> upload_stream_;
  std::unique_ptr<Buffer> memory_;  // Of the batch taken last.
  std::array<Slot, 2> slots_;
  int64_t uploaded_ = 0;
  int64_t taken_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_BATCH_UPLOADS_H_
