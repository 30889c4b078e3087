// Random changes of training images (proto::Augment), on bytes or floats. Immutable; thread-safe.
#ifndef TETHYS_RUNTIME_DATA_AUGMENTATION_H_
#define TETHYS_RUNTIME_DATA_AUGMENTATION_H_

#include <cstdint>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/sample_source.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// Checks that the job's augmentation can be applied to samples of `spec`. InvalidArgument: the samples are no
// images [height, width] or [height, width, channels], a number of the augmentation is too large for the
// sides of the images, or the labels cannot be changed together with the images.
absl::Status CheckAugmentation(const proto::Job& job, const SampleSpec& spec);

class Augmentation {
 public:
  // Requires that CheckAugmentation returned OK, and that the job has a seed. The mean of `scaling` is the
  // colour that fills areas without a pixel of the image.
  Augmentation(const proto::Job& job, const SampleSpec& spec, const InputScaling& scaling);

  // Changes the values of the sample that is used at `job_position`. Also changes its labels if the labels
  // are a map. The values have the type of the spec.
  void Apply(int64_t job_position, uint8_t* values, int32_t* labels) const;

 private:
  template <typename T>
  void ApplyTo(int64_t job_position, T* values, int32_t* labels) const;

  const proto::Augment config_;
  const uint64_t seed_;
  const ValueType type_;
  const int64_t height_, width_, channels_;
  const bool label_maps_;
  const int32_t ignored_label_;  // The label that padding gets in label maps.
  std::vector<float> mean_;      // [channels]; integral if the samples are bytes.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_AUGMENTATION_H_
