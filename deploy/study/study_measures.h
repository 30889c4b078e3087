// The measures of a run that a study knows, by name. Pure; any thread.
#ifndef TETHYS_DEPLOY_STUDY_STUDY_MEASURES_H_
#define TETHYS_DEPLOY_STUDY_STUDY_MEASURES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/summary.pb.h"

namespace tethys {

struct Measure {
  const char* name;   // The name in study files and study.csv.
  const char* title;  // The title, with the unit of `value` times `scale`.
  double scale;       // Tables and pages show `value` times `scale`; study files and study.csv have `value`.
  bool ratios;        // True: effects are ratios. False: effects are differences.
  absl::optional<double> (*value)(const proto::RunSummary& summary);
};

// True if the values of the measure lie in [0, 1], as accuracies do.
bool IsShare(const Measure& measure);

absl::Span<const Measure> AllMeasures();
// Null: there is no such measure.
const Measure* FindMeasure(absl::string_view name);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_STUDY_MEASURES_H_
