// The findings of a report as facts: the variant to train with, its rival, the reason for the choice and its
// certainty; the fastest, the most accurate and the cheapest variant, and the first variant to reach the
// target accuracy. FindingsOf decides all findings once. The headline, reason, verdict, explanation and
// cautions state them in sentences, so two sentences cannot contradict each other. A difference is "shown" if
// it is significant by DifferenceOf (report_value.h). Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_FINDINGS_H_
#define TETHYS_DEPLOY_REPORT_FINDINGS_H_

#include <vector>

#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"
#include "proto/report.pb.h"

namespace tethys {

enum class AnswerKind {
  kNothingToCompare,  // Fewer than two variants have a successful run.
  kSingleRuns,        // Fewer than two variants have several successful runs.
  kNotReached,        // No variant with several successful runs reached the given target in all of them.
  kTie,               // Several variants may be recommended, and none of them is shown to be slower.
  kOnlyReached,       // The choice alone reached the given target in all of its runs.
  kSooner,            // The choice is shown to reach the given target sooner than the rival.
  kFaster,            // The choice is shown to train faster than the rival.
  // Neither choice nor rival is shown to train faster; the rival is shown to be less accurate than `better`.
  kMoreAccurate,
  kForAccuracy,  // The rival is shown to train faster, and to be less accurate than `most_accurate`.
};

// The smallest and the largest number of runs behind several means.
struct Runs {
  int fewest = 0;
  int most = 0;
};

// The variant with the best mean of a value.
struct Leader {
  const proto::ReportVariant* variant = nullptr;  // Null: there is no leader.
  // The difference between the leader and the variant with which it is compared.
  Difference difference = Difference::kUnknown;
  bool alone = false;  // The leader is shown to differ from every other variant.
};

// The differences between tied variants.
struct TieFindings {
  Contenders accuracy;  // The first pair with a shown difference in accuracy, the more accurate one first.
  // If no pair has a shown difference: a difference in accuracy up to this size could be hidden by the noise
  // between runs.
  double hidden_accuracy = 0;
  int accuracy_runs = 0;  // The fewest runs behind the accuracy of a tied variant; at most kFewRuns.
  // For each other tied variant, the quotient of its RankedTime (ranking.h) and the first variant's
  // RankedTime has an interval. `times` covers all of these intervals.
  Interval times;
  // The rival of the choice among the tied variants (RivalOf): a variant of another strategy, if there is
  // one.
  const proto::ReportVariant* second = nullptr;
  // The number of runs of each variant that would show a difference in RankedTime between the choice and
  // `second` (RunsToTell).
  int runs_to_tell = 0;
  // The first variant of another strategy. Set only if all tied variants have the same strategy, and this
  // other variant is shown to be worse: slower than the choice or, if `other_slower` is false, less accurate
  // than Findings::most_accurate. The headline then compares the strategies before it states the tie.
  const proto::ReportVariant* other_strategy = nullptr;
  bool other_slower = false;
  // The advantages of two of the first kNamed tied variants: `fewest_processes` has the fewest processes, and
  // `steadiest` has the smallest spread of accuracy over its runs, if that spread is visibly smaller.
  const proto::ReportVariant* fewest_processes = nullptr;
  const proto::ReportVariant* steadiest = nullptr;
};

// All pointers point into the report. A null pointer or an empty ranking means that there is no such variant.
struct Findings {
  Ranking by_speed;  // Successful variants, the fastest first.
  Ranking repeated;  // The variants with several successful runs, the fastest first.
  Ranking reached;   // The variants whose runs all reached the target, in the order of ByTimeToTarget.

  AnswerKind kind = AnswerKind::kNothingToCompare;
  // The variants of `repeated` that may be recommended, the best first. With a target accuracy from the user:
  // the variants that reached it in all their runs. Otherwise: the variants that no other variant is shown to
  // surpass in accuracy. Empty if fewer than two variants were repeated.
  Ranking eligible;
  const proto::ReportVariant* choice = nullptr;  // The variant to recommend, the first of `eligible`.
  Ranking tied;     // The choice, and each eligible variant that is not shown to be slower by RankedTime.
  TieFindings tie;  // Set for kTie.
  // Set if the choice has one worker: the variants to train with if several workers must take part, the best
  // first. These are the eligible variants with several workers. If there are none and no target is given:
  // the fastest variant with several workers that no other such variant is shown to surpass in accuracy. In
  // both cases, variants that are shown to be slower than the first are left out.
  Ranking several;
  // The variant to compare the choice with: the first variant that exists in this list.
  //  1. If the choice has one worker: the first of `several`, because the first question is whether to
  //     distribute at all.
  //  2. A tied variant, of another strategy if possible.
  //  3. The first eligible variant of another strategy.
  //  4. With a given target: the first other eligible variant.
  //  5. Without a given target: the fastest repeated variant of another strategy or, if there is none, the
  //     fastest other repeated variant.
  const proto::ReportVariant* rival = nullptr;
  // Set without a given target: the fastest repeated variant, if it is shown to be faster than the choice.
  const proto::ReportVariant* faster = nullptr;
  // The first variant that is shown to be slower than the choice by RankedTime. With a given target, only
  // eligible variants count; otherwise every variant with several successful runs.
  const proto::ReportVariant* slower = nullptr;

  Accuracy accuracy = nullptr;                          // The compared accuracy: AccuracyOf(repeated).
  const proto::ReportVariant* most_accurate = nullptr;  // The most accurate variant of `repeated`.
  // Set for kMoreAccurate: the choice, if it is shown to be more accurate than the rival; otherwise
  // `most_accurate`.
  const proto::ReportVariant* better = nullptr;
  // The certainty of the answer. `ratio`: the RankedTime of the rival, divided by the RankedTime of the
  // choice; for kForAccuracy, the inverse. `runs`: the numbers of runs of choice and rival or, for a tie, of
  // all tied variants.
  Contrast ratio;
  Runs runs;
  // The largest share of the CPU that other programs took; 0 if it is at most kLoudOthersCpu.
  double others_cpu = 0;

  // The two variants that the answer compares: choice and rival. If nothing is recommended: the fastest
  // variant and its rival by RivalOf.
  Contenders pair;
  // The two variants that the explanation compares, the faster one first. This is `pair` if one of them is
  // mirrored and the other has parameter servers. Otherwise, if both strategies were run, the first pair of
  // StrategyPairs. Otherwise `pair`; if `pair` has no rival, RivalOf chooses one.
  Contenders explained;
  Ranking answered;  // The variants of the answer, if `explained` is another pair; otherwise empty.

  // The variant with which tables compare each variant: the choice or, without a choice, the variant with the
  // least RankedTime.
  const proto::ReportVariant* base = nullptr;
  Contenders fastest;          // The fastest variant and its rival by RivalOf.
  bool fastest_alone = false;  // The fastest variant is shown to be faster than every other variant.
  std::vector<Contenders> strategy_pairs;  // The result of StrategyPairs without the pair `fastest`.
  // The variant with the highest test accuracy, compared with the fastest variant. There is no leader if the
  // fastest variant itself has the highest accuracy, or if the difference is within noise.
  Leader accuracy_leader;
  // The cheapest variant, and each variant that is not shown to cost more. Empty unless the costs of all
  // variants are known.
  Ranking cheapest;
  bool cost_of_one_run = false;                        // The cost of some variant is known from one run only.
  const proto::ReportVariant* reached_next = nullptr;  // The variant to compare with the first of `reached`.
  // The first of `reached` is shown to differ from all others of `reached`.
  bool first_reached_alone = false;

  Ranking hardly_learned;       // Successful variants that are hardly better than a guess (IsAtChance).
  bool batches_differ = false;  // True if successful variants have different global batches.
};

Findings FindingsOf(const proto::Report& report);

// True if a model is hardly better than a guess that is right with probability `chance`, in (0, 1]: its
// accuracy is at most twice `chance`, or at most a tenth of the way from `chance` to 1, whichever is less.
bool IsAtChance(double accuracy, double chance);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_FINDINGS_H_
