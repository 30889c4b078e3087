// What the samples of a job's data are, as a value from which the rest of the job is guessed (first_job.h).
#ifndef TETHYS_DEPLOY_FIRST_JOB_SAMPLE_FACTS_H_
#define TETHYS_DEPLOY_FIRST_JOB_SAMPLE_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/tensor/batch.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct SampleFacts {
  Shape shape = {};  // The shape of a sample; of pictures in files of their own, the shape of the first one.
  ValueType type = ValueType::kByte;
  int64_t train = 0, test = 0;  // Numbers of samples.
  bool files = false;           // Samples are files of pictures, which may differ in size.
  bool one_size = true;         // The samples that were looked at have one shape.
  int64_t different_labels = 0;
  int32_t smallest_label = 0, largest_label = 0;
  bool sorted = false;  // The training samples are sorted by class.
};

// Opens the data of `guessed`, whose classes may be missing, and reads many labels and some values, by the
// readers that training uses. Has their errors. InvalidArgument: the labels are not one class for each
// sample.
absl::StatusOr<SampleFacts> LookAtSamples(const proto::Data& guessed);

// Reads samples that are evenly spread over the training samples. Fails if one of them cannot be read.
absl::Status TrySamples(const proto::Data& data);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FIRST_JOB_SAMPLE_FACTS_H_
