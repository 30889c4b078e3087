// The JobStrategy of a report's variant, and its traits. They are parsed from the strategy's name, because
// reports, like run summaries, store only this name. Pure; any thread.
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
