// The memory of one batch, which a loader fills on the host and a plan reads.
#ifndef TETHYS_RUNTIME_TENSOR_BATCH_H_
#define TETHYS_RUNTIME_TENSOR_BATCH_H_

#include <cstdint>
#include <vector>

#include "runtime/tensor/arena.h"

namespace tethys {

// The type of the values of samples.
enum class ValueType { kByte, kFloat };

constexpr int64_t BytesOf(ValueType type) {
  return type == ValueType::kFloat ? static_cast<int64_t>(sizeof(float)) : 1;
}

constexpr const char* ValueTypeText(ValueType type) {
  return type == ValueType::kFloat ? "float32" : "bytes";
}

// A view of a batch in memory that the view does not own. Rows beyond the last sample are padding: weight 0,
// labels 0 and arbitrary inputs.
struct HostBatch {
  uint8_t* inputs = nullptr;  // [rows, sample bytes]: values of the samples' type, in the host's byte order.
  int32_t* labels = nullptr;  // [rows, label elements]: classes, or the bits of float32 targets.
  float* weights = nullptr;   // [rows]: 1, or 0 for padding.
  int64_t rows = 0;
};

// Standardisation of inputs: (x / 255 - mean) / deviation for bytes, (x - mean) / deviation for floats. There
// is one pair of numbers for all values, or one pair for each channel. Channels are the last axis of a
// sample; if samples are [features], channels are the features. Both lists have the same length.
struct InputScaling {
  std::vector<float> mean = {0};
  std::vector<float> deviation = {1};
  ValueType type = ValueType::kByte;  // Type of the inputs.

  int64_t channels() const { return static_cast<int64_t>(mean.size()); }
  bool operator==(const InputScaling&) const = default;
};

// How a batch lies in one block of memory, so that one copy moves it to a device:
//
//   inputs | labels | weights      each begins at a multiple of 64 bytes of the block
struct BatchLayout {
  int64_t rows = 0;
  int64_t sample_bytes = 0;
  int64_t label_elements = 1;

  int64_t bytes() const { return weights_offset() + Aligned(rows * static_cast<int64_t>(sizeof(float))); }
  // The batch in a block of bytes() bytes, aligned to 64 bytes, on the host or on a device.
  HostBatch At(void* block) const {
    auto* bytes = static_cast<uint8_t*>(block);
    return {bytes, reinterpret_cast<int32_t*>(bytes + labels_offset()),
            reinterpret_cast<float*>(bytes + weights_offset()), rows};
  }

 private:
  static int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t labels_offset() const { return Aligned(rows * sample_bytes); }
  int64_t weights_offset() const {
    return labels_offset() + Aligned(rows * label_elements * static_cast<int64_t>(sizeof(int32_t)));
  }
};

// Owns the memory that a HostBatch borrows.
class BatchBuffer {
 public:
  BatchBuffer(int64_t rows, int64_t sample_bytes, int64_t label_elements = 1)
      : layout_{rows, sample_bytes, label_elements},
        block_(layout_.bytes() / static_cast<int64_t>(sizeof(float))) {}
  HostBatch batch() { return layout_.At(block_.data()); }

 private:
  BatchLayout layout_;
  Arena block_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TENSOR_BATCH_H_
