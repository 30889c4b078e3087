// Files of predictions, written batch by batch. Blocks on the disk; thread-compatible.
#ifndef TETHYS_DEPLOY_MODEL_FILES_PREDICTIONS_H_
#define TETHYS_DEPLOY_MODEL_FILES_PREDICTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// What a file of predictions contains: the number and shape of the predictions, labels and names.
struct PredictionShape {
  int64_t samples = 0;
  Shape output = {};                    // The output for a sample: [classes], or [height, width, classes].
  bool classifies = true;               // True if the outputs are logits of classes.
  bool labelled = false;                // True if the samples have labels.
  std::vector<std::string> files = {};  // The file of each sample; empty: samples have no files of their own.
  // One name for each class, by the class's number; empty: classes have no names.
  std::vector<std::string> class_names = {};
};

// The softmax of the logits, in double precision.
std::vector<double> Probabilities(absl::Span<const float> logits);

class PredictionFile {
 public:
  // The ending of `path` selects the format:
  //   .csv  One line per sample. If the outputs are logits of classes: the sample's number, its file and its
  //         label (if samples have them), the predicted class, then the probability of each class. Otherwise:
  //         the sample's number, its file and the outputs. If classes have names, a column with the name
  //         follows the column of the label and the column of the class, and the headings of the columns of
  //         probabilities contain the names.
  //   .npy  NumPy's format, version 1.0: the outputs as float32, with the axis of samples first
  // InvalidArgument: another ending, or .csv for outputs with several axes. Writes PATH.tmp until Commit.
  static absl::StatusOr<std::unique_ptr<PredictionFile>> Create(const std::string& path,
                                                                const PredictionShape& shape);
  // Removes the file unless Commit has succeeded.
  virtual ~PredictionFile() = default;

  // Adds the next sample. `label` is ignored if the samples have no labels, or the outputs are no logits.
  virtual absl::Status Add(int32_t label, absl::Span<const float> outputs) = 0;
  // Called once, after all samples: gives the file its final name.
  virtual absl::Status Commit() = 0;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_MODEL_FILES_PREDICTIONS_H_
