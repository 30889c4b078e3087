// Orders the variants of a comparison by speed, time to the target accuracy, strategy and accuracy.
// FindingsOf (findings.h) decides by these orders. A difference is "shown" if it is significant by
// DifferenceOf (report_value.h). Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_RANKING_H_
#define TETHYS_DEPLOY_REPORT_RANKING_H_

#include <functional>
#include <vector>

#include "proto/report.pb.h"

namespace tethys {

using Ranking = std::vector<const proto::ReportVariant*>;  // The first is the best.

// Successful variants, the fastest first.
Ranking BySpeed(const proto::Report& report);

// True if several runs of the variant succeeded. Only such variants can be recommended.
bool IsRepeated(const proto::ReportVariant* variant);

// True if workers exchange gradients among themselves, without servers.
bool IsMirrored(const proto::ReportVariant& variant);
bool HasServers(const proto::ReportVariant& variant);

// The variants whose runs all reached the target accuracy, in the order of their mean times to the target.
Ranking ByTimeToTarget(const proto::Report& report);

// The variant to compare with `chosen`, which is one of `variants`: the first variant of another strategy or,
// if all have the same strategy, the first other variant. Null if there are fewer than two variants.
const proto::ReportVariant* RivalOf(const Ranking& variants, const proto::ReportVariant& chosen);

// A value by which variants are compared.
using VariantValue = std::function<const proto::ReportValue&(const proto::ReportVariant&)>;

// Returns `first` and those of `variants` whose value is not shown to differ from the value of `first`. A
// text may call `first` "fastest" or "cheapest" only if the result is `first` alone.
Ranking TiedWith(const proto::ReportVariant& first, const Ranking& variants, const VariantValue& value);

// Two variants to compare. Null: there is no such variant.
struct Contenders {
  const proto::ReportVariant* best = nullptr;
  const proto::ReportVariant* rival = nullptr;
};

// One pair for each consistency of parameter servers: a mirrored variant and a variant of that consistency,
// the faster one first. If several variants qualify, the pair consists of the fastest two with the same
// global batch or, if no two have the same global batch, of the fastest two.
std::vector<Contenders> StrategyPairs(const Ranking& variants);

// The accuracy by which variants are compared: on the test split if every variant was tested in several runs,
// or else on the validation split if every variant was validated in several runs. Null: neither is the case.
using Accuracy = const proto::ReportValue& (proto::ReportVariant::*)() const;
Accuracy AccuracyOf(const Ranking& variants);

// The variant with the highest mean of `accuracy`. `variants` must not be empty.
const proto::ReportVariant& MostAccurateOf(const Ranking& variants, Accuracy accuracy);

// The variants that the most accurate variant is not shown to surpass in accuracy, in the order of
// `variants`.
Ranking NotSurpassed(const Ranking& variants, Accuracy accuracy);

// The time by which variants are ranked: the time to the user's target accuracy or, without a target, the
// training time.
const proto::ReportValue& RankedTime(const proto::Report& report, const proto::ReportVariant& variant);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_RANKING_H_
