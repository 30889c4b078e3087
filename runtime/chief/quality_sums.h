// Sums of loss and correct predictions over the samples of an epoch or an evaluation.
#ifndef TETHYS_RUNTIME_CHIEF_QUALITY_SUMS_H_
#define TETHYS_RUNTIME_CHIEF_QUALITY_SUMS_H_

#include <cstdint>
#include <vector>

#include "proto/chief.pb.h"
#include "proto/chief_state.pb.h"
#include "proto/summary.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct QualitySums {
  double loss = 0;
  int64_t correct = 0;
  int64_t samples = 0;
  int64_t labels = 0;
  int64_t correct_top5 = 0;
  std::vector<int64_t> confusion = {};  // The confusion matrix, laid out as EvaluationDone.confusion.

  void Add(const proto::StepRecord& record);
  // Adds a worker's part of an evaluation. All confusion matrices must have the same size.
  void Add(const proto::EvaluationDone& part);

  // The mean loss per sample (absent without samples), and the accuracies as shares of the labels (absent
  // without labels).
  proto::Quality Quality() const;

  void Save(proto::QualitySumsState& state) const;
  // InvalidArgument: a sum is out of range, or the confusion matrix is not square.
  absl::Status Restore(const proto::QualitySumsState& state);
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_QUALITY_SUMS_H_
