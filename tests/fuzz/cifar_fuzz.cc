#include <vector>

#include "runtime/data/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

// Reads the input as a file of CIFAR-10, and as a file of CIFAR-100 with either of its two kinds of labels.
void FuzzCifar(absl::string_view input) {
  const InputFile file(input);
  proto::Job job;
  job.mutable_data()->set_classes(10);
  job.mutable_data()->mutable_cifar()->add_train(file.path());
  for (const auto labels : {proto::Cifar::CIFAR_10, proto::Cifar::FINE, proto::Cifar::COARSE}) {
    job.mutable_data()->mutable_cifar()->set_labels(labels);
    const absl::StatusOr<Datasets> data = LoadDatasets(job);
    if (!data.ok()) {
      RequireRefusal(data.status(), file.path());
      continue;
    }
    const Dataset& train = *data->train;
    const int64_t record = train.sample_elements() + (labels == proto::Cifar::CIFAR_10 ? 1 : 2);
    Require(train.size() * record == static_cast<int64_t>(input.size()), "every byte is in a record");
    std::vector<uint8_t> values(train.sample_elements());
    int32_t label = 0;
    for (int64_t i = 0; i < train.size(); ++i) {
      Require(train.Read(i, values.data(), &label).ok(), "every sample can be read");
      Require(label >= 0 && label < 10, "a label is one of the classes");
      // The last value of a pixel is its blue value; the blue plane is at the end of the record.
      Require(values.back() == static_cast<uint8_t>(input[(i + 1) * record - 1]),
              "the last value is the record's last byte");
    }
  }
}

}  // namespace tethys::fuzz
