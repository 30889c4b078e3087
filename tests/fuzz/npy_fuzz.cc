#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

// Uses one array both as the values and as the labels of a job. This is valid for an array of bytes below 10
// with three axes.
void FuzzNpy(absl::string_view input) {
  const InputFile file(input);
  proto::Job job;
  job.mutable_data()->set_classes(10);
  job.mutable_data()->mutable_npy()->set_train_images(file.path());
  job.mutable_data()->mutable_npy()->set_train_labels(file.path());
  const absl::StatusOr<Datasets> data = LoadDatasets(job);
  if (!data.ok()) {
    RequireRefusal(data.status(), file.path());
    return;
  }
  const Dataset& train = *data->train;
  Require(train.size() * train.sample_bytes() <= static_cast<int64_t>(input.size()),
          "no more values than the file holds");
  std::vector<uint8_t> values(train.sample_bytes());
  std::vector<int32_t> classes(train.label_format().elements());
  Require(train.Read(train.size() - 1, values.data(), classes.data()).ok(), "the last sample can be read");
  for (const int32_t label : classes) Require(label >= 0 && label < 10, "a label is one of the classes");
}

}  // namespace tethys::fuzz
