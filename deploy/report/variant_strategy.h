// The strategy of a report's variant as a value. Reports, like run summaries, store only the strategy's name.
// Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_VARIANT_STRATEGY_H_
#define TETHYS_DEPLOY_REPORT_VARIANT_STRATEGY_H_

#include "proto/report.pb.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

inline JobStrategy StrategyOf(const proto::ReportVariant& variant) {
  return ParseStrategy(variant.strategy());
}
inline const ShapeTraits& TraitsOf(const proto::ReportVariant& variant) {
  return TraitsOf(StrategyOf(variant));
}

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_VARIANT_STRATEGY_H_
