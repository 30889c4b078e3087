#include "deploy/report/findings.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "deploy/report/cpu_use.h"
#include "deploy/report/variant_name.h"
#include "deploy/report/variant_strategy.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

// Spreads of accuracy are compared only if half of the widest interval is at least this.
constexpr double kVisibleSpread = 0.005;

bool Has(const Ranking& ranking, const ReportVariant* variant) {
  return std::find(ranking.begin(), ranking.end(), variant) != ranking.end();
}

VariantValue RankedTimeOf(const proto::Report& report) {
  return
      [&report](const ReportVariant& variant) -> const ReportValue& { return RankedTime(report, variant); };
}

const ReportValue& TimeToTarget(const ReportVariant& variant) { return variant.to_target().seconds(); }

Ranking Eligible(const proto::Report& report, const Findings& findings) {
  if (findings.repeated.size() < 2) return {};
  if (!report.target().given()) return NotSurpassed(findings.repeated, AccuracyOf(findings.repeated));
  Ranking eligible;
  std::copy_if(findings.reached.begin(), findings.reached.end(), std::back_inserter(eligible), IsRepeated);
  return eligible;
}

// Computes Findings::several from `eligible` and `repeated`, whose best variants come first.
Ranking WithSeveralWorkers(const proto::Report& report, const Findings& findings) {
  const auto several = [](const ReportVariant* variant) { return variant->workers() > 1; };
  const auto distributed_of = [&several](const Ranking& variants) {
    Ranking distributed;
    std::copy_if(variants.begin(), variants.end(), std::back_inserter(distributed), several);
    return distributed;
  };
  Ranking distributed = distributed_of(findings.eligible);
  if (distributed.empty() && !report.target().given()) {
    distributed = distributed_of(findings.repeated);
    distributed = NotSurpassed(distributed, AccuracyOf(distributed));
  }
  if (distributed.empty()) return {};
  return TiedWith(*distributed[0], distributed, RankedTimeOf(report));
}

const ReportVariant* RivalOfChoice(const proto::Report& report, const Findings& findings) {
  if (!findings.several.empty()) return findings.several[0];
  const ReportVariant& choice = *findings.choice;
  if (const ReportVariant* rival = RivalOf(findings.tied, choice); rival != nullptr) return rival;
  const ReportVariant* rival = RivalOf(findings.eligible, choice);
  const bool other_strategy = rival != nullptr && StrategyOf(*rival) != StrategyOf(choice);
  return report.target().given() || other_strategy ? rival : RivalOf(findings.repeated, choice);
}

const ReportVariant* BestSlower(const proto::Report& report, const Findings& findings) {
  const ReportValue& own = RankedTime(report, *findings.choice);
  for (const ReportVariant* variant : report.target().given() ? findings.eligible : findings.repeated) {
    if (IsShownLess(own, RankedTime(report, *variant))) return variant;
  }
  return nullptr;
}

AnswerKind KindOf(const proto::Report& report, const Findings& findings) {
  if (findings.by_speed.size() < 2) return AnswerKind::kNothingToCompare;
  if (findings.repeated.size() < 2) return AnswerKind::kSingleRuns;
  if (findings.choice == nullptr) return AnswerKind::kNotReached;
  if (findings.tied.size() > 1) return AnswerKind::kTie;
  if (findings.rival == nullptr) return AnswerKind::kOnlyReached;
  if (report.target().given()) return AnswerKind::kSooner;
  // kForAccuracy and kMoreAccurate state that the rival is less accurate. This is shown: if the rival is not
  // shown to be slower than the choice, it is not eligible, because it would be tied otherwise. And a variant
  // that is not eligible is shown to be less accurate than another variant.
  const ReportValue& own = findings.choice->seconds();
  const ReportValue& other = findings.rival->seconds();
  if (IsShownLess(other, own)) return AnswerKind::kForAccuracy;
  return IsShown(own, other) ? AnswerKind::kFaster : AnswerKind::kMoreAccurate;
}

// Sets TieFindings::accuracy or, if no pair has a shown difference in accuracy, TieFindings::hidden_accuracy.
void FindTiedAccuracy(const Ranking& tied, Accuracy accuracy, TieFindings& tie) {
  tie.accuracy_runs = kFewRuns;
  for (const ReportVariant* a : tied) {
    for (const ReportVariant* b : tied) {
      if (a == b) continue;
      const ReportValue& more = (a->*accuracy)();
      const ReportValue& less = (b->*accuracy)();
      tie.hidden_accuracy = std::max(tie.hidden_accuracy, HalfOf(PointsOf(more, less)));
      tie.accuracy_runs = std::min({tie.accuracy_runs, more.count(), less.count()});
      if (!IsShownLess(less, more)) continue;
      tie.accuracy = {a, b};
      return;
    }
  }
}

// The variant with the least value; null if several variants have this value.
template <typename Value>
const ReportVariant* Least(const Ranking& variants, const Value& value) {
  const ReportVariant* least = nullptr;
  for (const ReportVariant* variant : variants) {
    if (least == nullptr || value(*variant) < value(*least)) least = variant;
  }
  const auto equal = [&](const ReportVariant* variant) { return value(*variant) == value(*least); };
  return std::count_if(variants.begin(), variants.end(), equal) == 1 ? least : nullptr;
}

const ReportVariant* Steadiest(const Ranking& variants) {
  const Accuracy accuracy = AccuracyOf(variants);
  const auto few = [](const ReportVariant* variant) { return variant->seconds().count() < kFewRuns; };
  if (accuracy == nullptr || std::any_of(variants.begin(), variants.end(), few)) return nullptr;
  const auto half = [accuracy](const ReportVariant& variant) { return HalfWidth((variant.*accuracy)()); };
  const ReportVariant* steadiest = Least(variants, half);
  double widest = 0;
  for (const ReportVariant* variant : variants) widest = std::max(widest, half(*variant));
  const bool visible = steadiest != nullptr && widest >= kVisibleSpread && widest >= 2 * half(*steadiest);
  return visible ? steadiest : nullptr;
}

// Sets TieFindings::other_strategy.
void FindOtherStrategy(const proto::Report& report, const Findings& findings, TieFindings& tie) {
  const auto differs = [&findings](const ReportVariant* variant) {
    return StrategyOf(*variant) != StrategyOf(*findings.choice);
  };
  const bool one_strategy = std::none_of(findings.tied.begin(), findings.tied.end(), differs);
  // If the choice has one worker, no other strategy is sought, because the first question then is whether to
  // distribute the training at all.
  if (!one_strategy || findings.choice->workers() == 1 || findings.faster != nullptr) return;
  for (const Ranking& variants : {findings.eligible, findings.repeated}) {
    const auto other = std::find_if(variants.begin(), variants.end(), differs);
    if (other == variants.end()) continue;
    const bool given = report.target().given();
    const bool slower = IsShownLess(RankedTime(report, *findings.choice), RankedTime(report, **other));
    const bool less =
        !given && findings.accuracy != nullptr &&
        IsShownLess(((*other)->*findings.accuracy)(), (findings.most_accurate->*findings.accuracy)());
    if (slower || less) {
      tie.other_strategy = *other;
      tie.other_slower = slower;
    }
    return;
  }
}

TieFindings TieOf(const proto::Report& report, const Findings& findings) {
  const Ranking& tied = findings.tied;
  TieFindings tie;
  if (findings.accuracy != nullptr) FindTiedAccuracy(tied, findings.accuracy, tie);
  FindOtherStrategy(report, findings, tie);
  const ReportValue& own = RankedTime(report, *tied[0]);
  tie.times = {.low = 1, .high = 1};
  for (size_t i = 1; i < tied.size(); ++i) {
    const Contrast ratio = RatioOf(RankedTime(report, *tied[i]), own);
    if (!ratio.interval.has_value()) continue;
    tie.times = {std::min(tie.times.low, ratio.interval->low),
                 std::max(tie.times.high, ratio.interval->high)};
  }
  tie.second = RivalOf(tied, *tied[0]);
  tie.runs_to_tell = RunsToTell(own, RankedTime(report, *tie.second));
  Ranking named = tied;
  named.resize(std::min(named.size(), kNamed));
  tie.fewest_processes =
      Least(named, [](const ReportVariant& variant) { return variant.workers() + variant.servers(); });
  tie.steadiest = Steadiest(named);
  return tie;
}

Runs RunsOf(const proto::Report& report, const Ranking& variants) {
  Runs runs = {RankedTime(report, *variants[0]).count(), RankedTime(report, *variants[0]).count()};
  for (const ReportVariant* variant : variants) {
    runs.fewest = std::min(runs.fewest, RankedTime(report, *variant).count());
    runs.most = std::max(runs.most, RankedTime(report, *variant).count());
  }
  return runs;
}

void FindAnswer(const proto::Report& report, Findings& findings) {
  findings.eligible = Eligible(report, findings);
  if (!findings.repeated.empty()) {
    findings.accuracy = AccuracyOf(findings.repeated);
    if (findings.accuracy != nullptr) {
      findings.most_accurate = &MostAccurateOf(findings.repeated, findings.accuracy);
    }
  }
  if (!findings.eligible.empty()) {
    findings.choice = findings.eligible[0];
    const ReportVariant& choice = *findings.choice;
    findings.tied = TiedWith(choice, findings.eligible, RankedTimeOf(report));
    if (choice.workers() == 1) findings.several = WithSeveralWorkers(report, findings);
    findings.rival = RivalOfChoice(report, findings);
    const ReportVariant* fastest = findings.repeated[0];
    if (!report.target().given() && IsShownLess(fastest->seconds(), choice.seconds())) {
      findings.faster = fastest;
    }
    findings.slower = BestSlower(report, findings);
  }
  findings.kind = KindOf(report, findings);
  if (findings.kind == AnswerKind::kTie) findings.tie = TieOf(report, findings);
  if (findings.kind == AnswerKind::kMoreAccurate) {
    const bool itself =
        IsShownLess((findings.rival->*findings.accuracy)(), (findings.choice->*findings.accuracy)());
    findings.better = itself ? findings.choice : findings.most_accurate;
  }
  if (findings.rival != nullptr) {
    const bool slower = findings.kind == AnswerKind::kForAccuracy;
    findings.ratio = RatioOf(RankedTime(report, slower ? *findings.choice : *findings.rival),
                             RankedTime(report, slower ? *findings.rival : *findings.choice));
    const Ranking both = {findings.choice, findings.rival};
    findings.runs = RunsOf(report, findings.kind == AnswerKind::kTie ? findings.tied : both);
  }
  if (const double most = MostOthersCpu(report); most > kLoudOthersCpu) findings.others_cpu = most;
}

// True if one variant is mirrored and the other has parameter servers.
bool AreMirroredAndServers(const Contenders& pair) {
  if (pair.rival == nullptr) return false;
  return (IsMirrored(*pair.best) && HasServers(*pair.rival)) ||
         (IsMirrored(*pair.rival) && HasServers(*pair.best));
}

Contenders ExplainedPair(const Findings& findings) {
  Contenders pair = findings.pair;
  if (!AreMirroredAndServers(pair)) {
    const std::vector<Contenders> pairs = StrategyPairs(findings.by_speed);
    if (!pairs.empty()) return pairs[0];
  }
  if (pair.rival == nullptr) pair.rival = RivalOf(findings.by_speed, *pair.best);
  if (pair.rival != nullptr && pair.rival->seconds().mean() < pair.best->seconds().mean()) {
    std::swap(pair.best, pair.rival);
  }
  return pair;
}

// Computes Findings::answered.
Ranking AnsweredInstead(const Findings& findings) {
  const auto [best, rival] = findings.explained;
  const auto both_in = [](const Ranking& ranking, const Contenders& pair) {
    return Has(ranking, pair.best) && (pair.rival == nullptr || Has(ranking, pair.rival));
  };
  if (both_in({best, rival}, findings.pair) || both_in(findings.tied, findings.explained)) return {};
  Ranking answered = findings.tied;
  for (const ReportVariant* variant : {findings.pair.best, findings.pair.rival}) {
    if (variant != nullptr && !Has(answered, variant)) answered.push_back(variant);
  }
  return answered;
}

void FindPairs(Findings& findings) {
  const Ranking& variants = findings.by_speed;
  findings.fastest = {variants[0], RivalOf(variants, *variants[0])};
  findings.fastest_alone = TiedWith(*variants[0], variants, &ReportVariant::seconds).size() == 1;
  findings.pair = findings.choice == nullptr ? findings.fastest : Contenders{findings.choice, findings.rival};
  findings.explained = ExplainedPair(findings);
  findings.answered = AnsweredInstead(findings);
  for (const Contenders& pair : StrategyPairs(variants)) {
    if (pair.best == findings.fastest.best && pair.rival == findings.fastest.rival) continue;
    findings.strategy_pairs.push_back(pair);
  }
}

// The variant with the least RankedTime: Findings::base if there is no choice.
const ReportVariant* LeastRankedTime(const proto::Report& report) {
  const ReportVariant* least = nullptr;
  for (const ReportVariant& variant : report.variant()) {
    const ReportValue& time = RankedTime(report, variant);
    if (time.count() == 0) continue;
    if (least == nullptr || time.mean() < RankedTime(report, *least).mean()) least = &variant;
  }
  return least;
}

Leader AccuracyLeader(const Ranking& variants) {
  const ReportVariant& most = MostAccurateOf(variants, &ReportVariant::test_accuracy);
  const ReportVariant& fastest = *variants[0];
  if (&most == &fastest || most.test_accuracy().count() == 0) return {};
  const Difference difference = DifferenceOf(most.test_accuracy(), fastest.test_accuracy());
  if (difference == Difference::kNoise) return {};
  return {&most, difference, TiedWith(most, variants, &ReportVariant::test_accuracy).size() == 1};
}

void FindCheapest(Findings& findings) {
  const Ranking& variants = findings.by_speed;
  const auto unknown = [](const ReportVariant* variant) { return variant->cost().count() == 0; };
  if (std::any_of(variants.begin(), variants.end(), unknown)) return;
  const ReportVariant& least =
      **std::min_element(variants.begin(), variants.end(),
                         [](const auto* a, const auto* b) { return a->cost().mean() < b->cost().mean(); });
  findings.cheapest = TiedWith(least, variants, &ReportVariant::cost);
  findings.cost_of_one_run = std::any_of(variants.begin(), variants.end(),
                                         [](const auto* variant) { return variant->cost().count() < 2; });
}

void FindTarget(Findings& findings) {
  if (findings.reached.empty()) return;
  const ReportVariant& first = *findings.reached[0];
  const ReportVariant* fastest = findings.fastest.best;
  // True if the fastest variant reached the target too, but was not the first to reach it.
  const bool fastest_next = &first != fastest && Has(findings.reached, fastest);
  findings.reached_next = fastest_next ? fastest : RivalOf(findings.reached, first);
  findings.first_reached_alone = TiedWith(first, findings.reached, TimeToTarget).size() == 1;
}

bool HardlyLearned(const ReportVariant* variant) {
  const double chance = variant->chance_accuracy();
  const ReportValue& test = variant->test_accuracy();
  const ReportValue& accuracy = test.count() > 0 ? test : variant->best_accuracy();
  return chance > 0 && accuracy.count() > 0 && IsAtChance(accuracy.mean(), chance);
}

}  // namespace

bool IsAtChance(double accuracy, double chance) {
  return accuracy <= std::min(2 * chance, chance + 0.1 * (1 - chance));
}

Findings FindingsOf(const proto::Report& report) {
  Findings findings;
  findings.by_speed = BySpeed(report);
  findings.reached = ByTimeToTarget(report);
  const Ranking& variants = findings.by_speed;
  std::copy_if(variants.begin(), variants.end(), std::back_inserter(findings.repeated), IsRepeated);
  FindAnswer(report, findings);
  findings.base = findings.choice != nullptr ? findings.choice : LeastRankedTime(report);
  if (variants.empty()) return findings;
  FindPairs(findings);
  findings.accuracy_leader = AccuracyLeader(variants);
  FindCheapest(findings);
  FindTarget(findings);
  std::copy_if(variants.begin(), variants.end(), std::back_inserter(findings.hardly_learned), HardlyLearned);
  findings.batches_differ = std::any_of(variants.begin(), variants.end(), [&](const ReportVariant* variant) {
    return variant->global_batch() != variants[0]->global_batch();
  });
  return findings;
}

}  // namespace tethys
