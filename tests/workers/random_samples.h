// Random samples for replicas (replica.h).
#ifndef TETHYS_TESTS_WORKERS_RANDOM_SAMPLES_H_
#define TETHYS_TESTS_WORKERS_RANDOM_SAMPLES_H_

#include <memory>
#include <utility>

#include "runtime/base/random.h"
#include "runtime/data/dataset.h"

namespace tethys {

// Random 6 x 6 images, as the model of TestReplica takes them, with labels; each `key` gives other samples.
inline std::shared_ptr<const Dataset> RandomSamples(int64_t samples, uint64_t key) {
  auto store = std::make_shared<SampleStore>();
  store->sample_shape = {6, 6};
  store->sample_elements = 36;
  TETHYS_CHECK(store->values.Resize(samples * 36).ok() && store->labels.Resize(samples).ok());
  RandomStream stream(4, RandomPurpose::kTest, key);
  for (int64_t i = 0; i < samples * 36; ++i) store->values.data()[i] = stream.NextBelow(256);
  for (int64_t i = 0; i < samples; ++i) store->labels.data()[i] = stream.NextBelow(10);
  return std::make_shared<Dataset>(std::move(store), 0, samples);
}

}  // namespace tethys

#endif  // TETHYS_TESTS_WORKERS_RANDOM_SAMPLES_H_
