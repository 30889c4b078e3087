// The order of a comparison's variants: by speed, by time to the target, by strategy, by accuracy. The
// verdict and the explanation put it into sentences. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_RANKING_H_
#define TETHYS_DEPLOY_REPORT_RANKING_H_

#include <vector>

#include "proto/report.pb.h"

namespace tethys {

using Ranking = std::vector<const proto::ReportVariant*>;  // The first is the best.

// Successful variants, the fastest first.
Ranking BySpeed(const proto::Report& report);

// Variants all of whose runs reached the target, in order of the time to it.
Ranking ByTimeToTarget(const proto::Report& report);

// The rival of the first variant: the first of another strategy, or else the second; null if it is the only
// one.
const proto::ReportVariant* RivalOf(const Ranking& variants);

// The two variants that the explanation compares, the faster one first. If both strategies were run: mirrored
// workers and parameter servers, as StrategyPairs pairs them. Otherwise the fastest variant and the fastest
// one of another strategy, or the second fastest if all have one strategy. Null if there is none.
struct Contenders {
  const proto::ReportVariant* best = nullptr;
  const proto::ReportVariant* rival = nullptr;
};
Contenders ContendersOf(const proto::Report& report);

// Pairs mirrored workers with each consistency of parameter servers. Among several variants, the fastest two
// of equal global batch or, if there are none, the fastest two.
std::vector<Contenders> StrategyPairs(const Ranking& variants);

// The accuracy to judge by: on the test split if all variants were tested in several runs, or else on the
// validation split; null: neither was measured for all.
using Accuracy = const proto::ReportValue& (proto::ReportVariant::*)() const;
Accuracy AccuracyOf(const Ranking& variants);

// The variants that no other is shown to surpass in accuracy, in order of speed.
Ranking NotSurpassed(const Ranking& variants, Accuracy accuracy);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_RANKING_H_
