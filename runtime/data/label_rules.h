// The labels that a job accepts.
#ifndef TETHYS_RUNTIME_DATA_LABEL_RULES_H_
#define TETHYS_RUNTIME_DATA_LABEL_RULES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct LabelRules {
  bool targets = false;  // Labels are float32 values instead of classes.
  int64_t classes = 0;   // Labels from 0 to `classes` - 1 are accepted.
  int ignored = -1;      // One more label that is accepted (ignore_label); negative: none.

  bool Accepts(int64_t label) const { return label >= 0 && (label < classes || label == ignored); }
  // Says why a label is not accepted, for errors: "outside the 10 classes of data.classes (0 to 9)".
  std::string OutsideText() const;
  // InvalidArgument: the job takes targets, but `source` ("data.cifar") has classes.
  absl::Status CheckTakeClasses(absl::string_view source) const;
};

inline LabelRules LabelRulesOf(const proto::Job& job) {
  if (job.model().loss().has_mean_squared_error()) return {.targets = true};
  const proto::SoftmaxCrossEntropy& loss = job.model().loss().softmax_cross_entropy();
  return {.classes = job.data().classes(), .ignored = loss.has_ignore_label() ? loss.ignore_label() : -1};
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_LABEL_RULES_H_
