// One batch on the host: as a loader fills it and a plan reads it.
#ifndef TETHYS_RUNTIME_TENSOR_BATCH_H_
#define TETHYS_RUNTIME_TENSOR_BATCH_H_

#include <cstdint>
#include <vector>

namespace tethys {

// Borrowed memory. Rows beyond the samples have weight 0 and any input; their labels are 0.
struct HostBatch {
  uint8_t* inputs = nullptr;  // [rows, sample elements]
  int32_t* labels = nullptr;  // [rows]
  float* weights = nullptr;   // [rows]: 1, or 0 for padding.
  int64_t rows = 0;
};

// Standardisation of input bytes: (x / 255 - mean) / deviation.
struct InputScaling {
  float mean = 0;
  float deviation = 1;
};

// Owns what a HostBatch borrows.
class BatchBuffer {
 public:
  BatchBuffer(int64_t rows, int64_t sample_elements)
      : inputs_(rows * sample_elements), labels_(rows), weights_(rows) {}
  HostBatch batch() {
    return {inputs_.data(), labels_.data(), weights_.data(), static_cast<int64_t>(labels_.size())};
  }

 private:
  std::vector<uint8_t> inputs_;
  std::vector<int32_t> labels_;
  std::vector<float> weights_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TENSOR_BATCH_H_
