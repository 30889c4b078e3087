// The splits of a job's data, as views of the sources that its format opens. Loaders build batches from them.
// A Dataset is immutable and thread-safe.
#ifndef TETHYS_RUNTIME_DATA_DATASET_H_
#define TETHYS_RUNTIME_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/sample_source.h"
#include "runtime/tensor/batch.h"
#include "runtime/tensor/labels.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class Dataset {
 public:
  // Samples [first, first + count) of the source.
  Dataset(std::shared_ptr<const SampleSource> source, int64_t first, int64_t count)
      : source_(std::move(source)), first_(first), size_(count) {
    TETHYS_CHECK(first >= 0 && count >= 0 && first + count <= source_->size());
  }

  int64_t size() const { return size_; }
  const SampleSpec& spec() const { return source_->spec(); }
  const Shape& sample_shape() const { return source_->spec().shape; }
  int64_t sample_elements() const { return source_->spec().elements(); }
  int64_t sample_bytes() const { return source_->spec().bytes(); }
  const LabelFormat& label_format() const { return source_->spec().labels; }

  // Like SampleSource::Read. Requires 0 <= index < size().
  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const {
    return source_->Read(first_ + index, values, labels);
  }
  // Like SampleSource::Expect, for the sample `index` of this split.
  void Expect(int64_t index) const { source_->Expect(first_ + index); }
  absl::Status ReadValues(int64_t index, uint8_t* values) const { return Read(index, values, nullptr); }
  absl::Status ReadLabels(int64_t index, int32_t* labels) const { return Read(index, nullptr, labels); }

 private:
  const std::shared_ptr<const SampleSource> source_;
  const int64_t first_;
  const int64_t size_;
};

// All functions that take a job or its data read chief://PATH as the file PATH of this machine. The command
// that starts a job reads this file to plan the job, so it must run on the chief's machine or on a machine
// with the same files. Workers first fetch the files from the chief (chief_copies.h).

// The files whose presence shows that a host has the data; see DataFormat::files.
absl::StatusOr<std::vector<std::string>> DataFiles(const proto::Data& data);

struct DatasetSizes {
  int64_t train = 0;
  int64_t validation = 0;  // 0 if the job has no validation split.
  int64_t test = 0;        // 0 if the job has no test data.
  Shape sample_shape;
  ValueType type = ValueType::kByte;  // The type of the samples' values.
  LabelFormat labels;
  // The number of training samples in each file, without the validation split and without the samples beyond
  // limit_samples; empty if DataHeader::file_samples is empty.
  std::vector<int64_t> file_samples;
  // First the notes on the training part and the test part (DataHeader::notes), then the notes on both parts
  // together (data_notes.h).
  std::vector<std::string> notes;
};

// Reads only the headers of the files, which is cheap, and checks them: there are as many images as labels,
// the splits fit, and test data have the shapes of training data. The job's loss determines whether labels
// are targets. InvalidArgument names the files. Has the errors of CheckAugmentation, too.
absl::StatusOr<DatasetSizes> ReadDatasetSizes(const proto::Job& job);

struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;  // Null without a validation split. Shares `train`'s source.
  std::shared_ptr<const Dataset> test;        // Null without test data.
  std::vector<int64_t> file_samples;          // As in DatasetSizes.
  // The key of values in the host's cache that were computed from the training samples. Empty: no such values
  // are kept.
  std::string train_key;
};

// Opens the data, with the checks of ReadDatasetSizes and of DataFormat::open.
absl::StatusOr<Datasets> LoadDatasets(const proto::Job& job);
// Like LoadDatasets, but ignores data.cache. For programs that read each sample at most once.
absl::StatusOr<Datasets> LoadDatasetsUncached(proto::Job job);

// Checks the labels of data that must be unpacked, as far as this is quick. So mistakes that workers would
// find in LoadDatasets are found before a job starts.
absl::Status CheckLabelFiles(const proto::Job& job);

// Returns the standardisation that the job specifies, or computes it from the data if the job says so. Has
// the errors of ComputeScaling (input_scaling.h).
absl::StatusOr<InputScaling> ResolveScaling(const proto::Data& data, const Dataset& train);
// Like ResolveScaling above, but computes the standardisation once per host: the first process stores the
// result in the host's cache, where other processes find it.
absl::StatusOr<InputScaling> ResolveScaling(const proto::Data& data, const Datasets& datasets);

// Like ResolveScaling, but never reads a sample. nullopt: the scaling must be computed, and no process of
// this host has stored it for the present files. `train` and `validation` are the numbers of samples from
// ReadDatasetSizes.
absl::StatusOr<absl::optional<InputScaling>> FindScaling(const proto::Job& job, const SampleSpec& spec,
                                                         int64_t train, int64_t validation);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_DATASET_H_
