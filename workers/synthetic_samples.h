// Samples for measuring steps. A few samples are repeated without end, so that reading a sample is a copy
// within the processor's cache. Immutable; thread-safe.
#ifndef TETHYS_WORKERS_SYNTHETIC_SAMPLES_H_
#define TETHYS_WORKERS_SYNTHETIC_SAMPLES_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/philox.h"
#include "runtime/data/sample_source.h"

namespace tethys {

class SyntheticSamples final : public SampleSource {
 public:
  // Labels are classes below `classes`, or targets of 0.5.
  SyntheticSamples(SampleSpec spec, int64_t classes)
      : SampleSource(std::move(spec), int64_t{1} << 40), classes_(std::max<int64_t>(1, classes)) {
    const int64_t values = kDistinct * this->spec().elements();
    if (floats()) floats_.resize(values);
    if (!floats()) bytes_.resize(values);
    for (int64_t i = 0; i < values; ++i) {
      const uint32_t random = Philox4x32({1, 2}, static_cast<uint64_t>(i), 0).words[0];
      if (floats()) {
        floats_[i] = ToUnitFloat(random) - 0.5f;
      } else {
        bytes_[i] = static_cast<uint8_t>(random);
      }
    }
  }

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    const int64_t sample = index % kDistinct, at = sample * spec().elements();
    if (values != nullptr && floats()) {
      std::copy_n(floats_.data() + at, spec().elements(), reinterpret_cast<float*>(values));
    } else if (values != nullptr) {
      std::copy_n(bytes_.data() + at, spec().elements(), values);
    }
    if (labels == nullptr) return absl::OkStatus();
    if (spec().labels.targets) {
      std::fill_n(reinterpret_cast<float*>(labels), spec().labels.elements(), 0.5f);
    } else {
      std::fill_n(labels, spec().labels.elements(), static_cast<int32_t>(sample % classes_));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kDistinct = 32;
  bool floats() const { return spec().type == ValueType::kFloat; }

  const int64_t classes_;
  std::vector<uint8_t> bytes_;
  std::vector<float> floats_;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_SYNTHETIC_SAMPLES_H_
