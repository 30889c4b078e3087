#include "runtime/nn/batch_uploads.h"

namespace tethys {

absl::StatusOr<std::unique_ptr<BatchUploads>> BatchUploads::Create(Device& device, Stream& stream,
                                                                   const BatchLayout& layout) {
  std::unique_ptr<BatchUploads> uploads(new BatchUploads(device, stream, layout));
  TETHYS_RETURN_IF_ERROR(uploads->Allocate());
  return uploads;
}

absl::Status BatchUploads::Allocate() {
  TETHYS_ASSIGN_OR_RETURN(upload_stream_, device_.CreateStream());
  TETHYS_ASSIGN_OR_RETURN(memory_, device_.Allocate(layout_.bytes(), MemoryKind::kDevice));
  for (Slot& slot : slots_) {
    TETHYS_ASSIGN_OR_RETURN(slot.memory, device_.Allocate(layout_.bytes(), MemoryKind::kDevice));
    TETHYS_ASSIGN_OR_RETURN(slot.written, device_.CreateEvent());
    TETHYS_ASSIGN_OR_RETURN(slot.read, device_.CreateEvent());
  }
  return absl::OkStatus();
}

absl::Status BatchUploads::Upload(const HostBatch& batch) {
  const HostBatch whole = layout_.At(batch.inputs);
  TETHYS_CHECK(batch.rows == whole.rows && batch.labels == whole.labels && batch.weights == whole.weights,
               "a batch of ", batch.rows, " rows does not lie in one block");
  TETHYS_CHECK(uploaded_ < taken_ + 2, "both slots hold batches that were not taken");
  Slot& slot = SlotOf(uploaded_);
  TETHYS_RETURN_IF_ERROR(slot.read->Wait(*upload_stream_));
  TETHYS_RETURN_IF_ERROR(
      device_.CopyToDevice(*upload_stream_, slot.memory->data(), batch.inputs, layout_.bytes()));
  TETHYS_RETURN_IF_ERROR(slot.written->Record(*upload_stream_));
  ++uploaded_;
  return absl::OkStatus();
}

absl::Status BatchUploads::Take() {
  TETHYS_CHECK(taken_ < uploaded_, "no batch was uploaded");
  Slot& slot = SlotOf(taken_);
  TETHYS_RETURN_IF_ERROR(slot.written->Wait(stream_));
  TETHYS_RETURN_IF_ERROR(
      device_.CopyOnDevice(stream_, memory_->data(), slot.memory->data(), layout_.bytes()));
  TETHYS_RETURN_IF_ERROR(slot.read->Record(stream_));
  ++taken_;
  return absl::OkStatus();
}

absl::Status BatchUploads::AwaitUploads() { return upload_stream_->Synchronize(); }

absl::Status BatchUploads::Drop() {
  while (taken_ < uploaded_) TETHYS_RETURN_IF_ERROR(Take());
  return AwaitUploads();
}

}  // namespace tethys
