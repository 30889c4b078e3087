// Labelled samples in memory, kept as the bytes of the files. Loaders build batches from them. Loading blocks
// on file reads. A Dataset is immutable and thread-safe.
#ifndef TETHYS_RUNTIME_DATA_DATASET_H_
#define TETHYS_RUNTIME_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/idx.h"
#include "runtime/tensor/batch.h"
#include "runtime/tensor/labels.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The contents of one pair of files, shared by its splits.
struct SampleStore {
  Shape sample_shape;  // Without the axis that counts samples.
  int64_t sample_elements = 0;
  ByteBuffer values;  // [count, sample_elements]
  LabelFormat label_format;
  ByteBuffer labels;  // [count, label elements]: bytes, or float32 targets.
};

class Dataset {
 public:
  // Samples [first, first + count) of the store.
  Dataset(std::shared_ptr<const SampleStore> store, int64_t first, int64_t count);

  int64_t size() const { return size_; }
  const Shape& sample_shape() const { return store_->sample_shape; }
  int64_t sample_elements() const { return store_->sample_elements; }
  // sample_elements() bytes. Requires 0 <= index < size().
  const uint8_t* sample(int64_t index) const { return values_ + index * store_->sample_elements; }
  const LabelFormat& label_format() const { return store_->label_format; }
  // Writes the label_format().elements() labels of a sample: classes, or the bits of float32 targets.
  void CopyLabels(int64_t index, int32_t* labels) const;

 private:
  const std::shared_ptr<const SampleStore> store_;
  const int64_t size_;
  const int64_t label_elements_;
  const uint8_t* const values_;
  const uint8_t* const labels_;
};

// The paths of all files that LoadDatasets reads.
std::vector<std::string> DataFiles(const proto::Data& data);

struct DatasetSizes {
  int64_t train = 0;
  int64_t validation = 0;  // 0 if the job has no validation split.
  int64_t test = 0;        // 0 if the job has no test data.
  Shape sample_shape;
  LabelFormat labels;
};

// Reads only the headers of the files, which is cheap, and checks them: as many images as labels, splits that
// fit, test samples and labels of the same shape as those for training. The job's loss says whether labels
// are targets. InvalidArgument names the files.
absl::StatusOr<DatasetSizes> ReadDatasetSizes(const proto::Job& job);

struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;  // Null without a validation split. Shares bytes with `train`.
  std::shared_ptr<const Dataset> test;        // Null without test data.
};

// Reads all files. Has the checks of ReadDatasetSizes, and refuses a label outside the classes that is not
// the loss's ignore_label, or a target that is not finite, naming file, index and label.
absl::StatusOr<Datasets> LoadDatasets(const proto::Job& job);

// The images of one file, without labels: in place of these, zeros in the given format. Has the errors of
// ReadIdx.
absl::StatusOr<std::shared_ptr<const Dataset>> LoadImages(const std::string& path, const LabelFormat& labels);

// The standardisation that the job specifies, or that is computed from the data if the job says so. Computing
// it sums all pixels of the training split in exact integers, so every worker gets the same floats.
// InvalidArgument when all pixels are equal.
absl::StatusOr<InputScaling> ResolveScaling(const proto::Data& data, const Dataset& train);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_DATASET_H_
