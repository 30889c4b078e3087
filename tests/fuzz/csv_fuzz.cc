#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

// Reads every sample. An error names the file.
void ReadAll(const Dataset& data, const std::string& path, int64_t most_samples) {
  Require(data.size() >= 1 && data.size() <= most_samples, "no more samples than the file can hold");
  const bool floats = data.spec().type == ValueType::kFloat;
  std::vector<float> values(data.sample_elements());  // Aligned for either type.
  for (int64_t i = 0; i < data.size(); ++i) {
    int32_t label = -1;
    const absl::Status status = data.Read(i, reinterpret_cast<uint8_t*>(values.data()), &label);
    if (!status.ok()) {
      RequireRefusal(status, path);
      continue;
    }
    Require(label >= 0 && label < 10, "a label is one of the classes");
    for (const float value : values) Require(!floats || std::isfinite(value), "values are finite");
  }
}

}  // namespace

// The text is read as bytes and as floats, of ten classes.
void FuzzCsv(absl::string_view input) {
  const InputFile file(input);
  for (const bool bytes : {true, false}) {
    proto::Job job;
    job.mutable_data()->set_classes(10);
    job.mutable_data()->mutable_csv()->add_train(file.path());
    job.mutable_data()->mutable_csv()->set_bytes(bytes);
    const absl::StatusOr<Datasets> data = LoadDatasets(job);
    if (data.ok()) {
      ReadAll(*data->train, file.path(), static_cast<int64_t>(input.size()));
    } else {
      RequireRefusal(data.status(), file.path());
    }
  }
}

}  // namespace tethys::fuzz
