// Predictions as `tethys predict` shows them on the terminal. Thread-compatible; blocks on nothing.
#ifndef TETHYS_DEPLOY_MODEL_FILES_SHOWN_PREDICTIONS_H_
#define TETHYS_DEPLOY_MODEL_FILES_SHOWN_PREDICTIONS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "deploy/model_files/predictions.h"

namespace tethys {

// Makes a line for each of the first samples: "cat.png: cat 97.3 %, dog 2.1 %, deer 0.3 %", or "sample 4:
// ..." if samples have no files of their own. If the samples have labels, the line ends with the label:
// "(labelled dog)".
class ShownPredictions {
 public:
  static constexpr int64_t kMost = 20;  // The most samples shown.

  // `shape.output` must have one axis.
  explicit ShownPredictions(PredictionShape shape) : shape_(std::move(shape)) {}

  // Adds the next sample.
  void Add(int32_t label, absl::Span<const float> outputs);
  // The lines of the shown samples, and a line with the number of samples that are not shown.
  std::string Text() const;

 private:
  std::string ClassText(int64_t index) const;
  std::string AnswerText(absl::Span<const float> outputs) const;

  const PredictionShape shape_;
  int64_t added_ = 0;
  std::string text_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_MODEL_FILES_SHOWN_PREDICTIONS_H_
