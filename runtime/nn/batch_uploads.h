// Copies batches to a device that does not read the host's memory, while the device computes. Each batch is
// copied on a separate stream into one of two slots. When the batch's step begins, the batch is copied from
// the slot to the buffer that the step reads. The address of that buffer never changes, so one captured graph
// of a step serves all batches.
//
//   uploads.Upload(next batch);            // while a step computes
//   uploads.Take();                        // enqueues the copy of that batch to batch()
//   ... work on the stream reads uploads.batch()
//
// Used by a plan, on the device's thread. Only AwaitUploads and Drop block.
#ifndef TETHYS_RUNTIME_NN_BATCH_UPLOADS_H_
#define TETHYS_RUNTIME_NN_BATCH_UPLOADS_H_

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/device/device.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// Invariants:
//  1. taken <= uploaded <= taken + 2, where `taken` and `uploaded` are the numbers of batches so far.
//  2. Batch k lies in slot k mod 2. The slot is written after `stream` has read batch k - 2 from the slot,
//     and read after batch k is written.
class BatchUploads {
 public:
  // `stream` is the stream that computes. `device` and `stream` must outlive the uploads.
  static absl::StatusOr<std::unique_ptr<BatchUploads>> Create(Device& device, Stream& stream,
                                                              const BatchLayout& layout);

  // Starts to copy a batch. Requires that the batch has the layout given to Create, and that fewer than two
  // uploaded batches wait to be taken. Pinned memory must not change until AwaitUploads has returned.
  absl::Status Upload(const HostBatch& batch);

  // Enqueues the copy of the oldest waiting batch into batch(). All work enqueued later reads that batch.
  // Requires an uploaded batch that was not taken.
  absl::Status Take();

  // Blocks until all uploaded batches have been copied out of the host's memory.
  absl::Status AwaitUploads();

  // Forgets the batches that wait to be taken. Blocks like AwaitUploads.
  absl::Status Drop();

  // The batch that Take copied last, in device memory.
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
  std::unique_ptr<Buffer> memory_;  // Device memory for the batch that Take copied last.
  std::array<Slot, 2> slots_;
  int64_t uploaded_ = 0;
  int64_t taken_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_BATCH_UPLOADS_H_
