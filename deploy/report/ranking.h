// Orders the variants of a comparison by speed, time to the target accuracy, strategy and accuracy. verdict.h
// and explanation.h put the results into sentences. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_RANKING_H_
#define TETHYS_DEPLOY_REPORT_RANKING_H_

#include <functional>
#include <vector>

#include "proto/report.pb.h"

namespace tethys {

using Ranking = std::vector<const proto::ReportVariant*>;  // The first is the best.

// Successful variants, the fastest first.
Ranking BySpeed(const proto::Report& report);

// The variants with several successful runs, the fastest first. Only these can be recommended.
Ranking Repeated(const proto::Report& report);

// The variants whose runs all reached the target accuracy, in the order of their mean times to the target.
Ranking ByTimeToTarget(const proto::Report& report);

// The variant to compare with `chosen`, which is one of `variants`: the first variant of another strategy or,
// if all have the same strategy, the first other variant. Null if there are fewer than two variants.
const proto::ReportVariant* RivalOf(const Ranking& variants, const proto::ReportVariant& chosen);

// A value by which variants are compared.
using VariantValue = std::function<const proto::ReportValue&(const proto::ReportVariant&)>;

// `first`, and each of `variants` whose value is not shown to differ from that of `first`. A word such as
// "fastest" or "cheapest" needs `first` alone.
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

// The variants that may be recommended, the best first. With a target accuracy from the user: the variants
// that reached it in all their runs, in the order of ByTimeToTarget. Otherwise: the variants that no other is
// shown to surpass in accuracy, the fastest first. Only variants with several successful runs count; empty if
// there are fewer than two.
Ranking Eligible(const proto::Report& report);

// The time by which variants are ranked: the time to the user's target accuracy or, without a target, the
// training time.
const proto::ReportValue& RankedTime(const proto::Report& report, const proto::ReportVariant& variant);

// The first variant that is shown to be slower than `choice` by RankedTime. With a given target, only
// eligible variants count; otherwise every variant with several successful runs. Null: there is none.
const proto::ReportVariant* BestSlower(const proto::Report& report, const proto::ReportVariant& choice);

// The variant to recommend, the first of Eligible, and the variant to compare it with.
struct Answer {
  const proto::ReportVariant* choice = nullptr;  // Null: nothing is recommended.
  Ranking tied;  // The choice, and each eligible variant that is not shown to be slower by RankedTime.
  const proto::ReportVariant* rival = nullptr;  // Null: with a given target, no other variant reached it.
  // Set if the choice has one worker: the variants to train with if several workers must take part, the best
  // first. These are the variants of Eligible with several workers. If there are none and no target is given:
  // the fastest variant with several workers that no other such variant is shown to surpass in accuracy. In
  // both cases, with the variants that are not shown to be slower than the first.
  Ranking several;
};
// The rival. For a choice of one worker, the first of `several`, because the first question is whether to
// distribute at all; with a given target, an eligible variant only. Otherwise, in this order of preference: a
// tied variant, of another strategy if possible; the first eligible variant of another strategy; the fastest
// repeated variant of another strategy or, with a given target, another eligible variant.
Answer AnswerOf(const proto::Report& report);

// The two variants that the report's answer compares (headline.h): choice and rival of AnswerOf. If nothing
// is recommended: the fastest variant and its rival by RivalOf.
Contenders AnswerPair(const proto::Report& report);

// The two variants that the explanation compares, the faster one first. This is AnswerPair if one of them is
// mirrored and the other has parameter servers. Otherwise, if both strategies were run, the pair of
// StrategyPairs. Otherwise AnswerPair, with the rival of RivalOf if it has none.
Contenders ContendersOf(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_RANKING_H_
