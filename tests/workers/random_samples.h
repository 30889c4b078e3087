// Random samples for replicas (replica.h).
#ifndef TETHYS_TESTS_WORKERS_RANDOM_SAMPLES_H_
#define TETHYS_TESTS_WORKERS_RANDOM_SAMPLES_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/data/dataset.h"

namespace tethys {

// Samples that are held in memory.
class TestSamples final : public SampleSource {
 public:
  TestSamples(SampleSpec spec, std::vector<uint8_t> values, std::vector<int32_t> labels)
      : SampleSource(std::move(spec), static_cast<int64_t>(labels.size())),
        values_(std::move(values)),
        labels_(std::move(labels)) {}
  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    const int64_t elements = spec().elements();
    if (values != nullptr) std::copy_n(values_.begin() + index * elements, elements, values);
    if (labels != nullptr) *labels = labels_[index];
    return absl::OkStatus();
  }

 private:
  const std::vector<uint8_t> values_;
  const std::vector<int32_t> labels_;
};

// Random 6 x 6 images with labels, as the model of TestReplica takes them; each `key` gives other samples.
inline std::shared_ptr<const Dataset> RandomSamples(int64_t samples, uint64_t key) {
  std::vector<uint8_t> values(samples * 36);
  std::vector<int32_t> labels(samples);
  RandomStream stream(4, RandomPurpose::kTest, key);
  for (uint8_t& value : values) value = static_cast<uint8_t>(stream.NextBelow(256));
  for (int32_t& label : labels) label = static_cast<int32_t>(stream.NextBelow(10));
  auto source =
      std::make_shared<TestSamples>(SampleSpec{.shape = {6, 6}}, std::move(values), std::move(labels));
  return std::make_shared<Dataset>(std::move(source), 0, samples);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_RANDOM_SAMPLES_H_
