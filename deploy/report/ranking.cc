#include "deploy/report/ranking.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "deploy/report/report_value.h"
#include "deploy/report/variant_strategy.h"

namespace tethys {
namespace {

using proto::ReportVariant;

bool IsSingle(const ReportVariant* variant) { return variant->seconds().count() < 2; }

// True if workers exchange gradients among themselves, without servers.
bool IsMirrored(const ReportVariant& variant) {
  return TraitsOf(variant).family == StrategyFamily::kMirrored;
}

bool HasServers(const ReportVariant& variant) { return TraitsOf(variant).servers(); }

VariantValue RankedTimeOf(const proto::Report& report) {
  return [&report](const ReportVariant& variant) -> const proto::ReportValue& {
    return RankedTime(report, variant);
  };
}

// The variants with several workers that Answer::several describes. Both rankings begin with the best.
Ranking WithSeveralWorkers(const proto::Report& report, const Ranking& eligible) {
  const auto several = [](const ReportVariant* variant) { return variant->workers() > 1; };
  Ranking distributed;
  std::copy_if(eligible.begin(), eligible.end(), std::back_inserter(distributed), several);
  if (distributed.empty() && !report.target().given()) {
    const Ranking all = Repeated(report);
    std::copy_if(all.begin(), all.end(), std::back_inserter(distributed), several);
    distributed = NotSurpassed(distributed, AccuracyOf(distributed));
  }
  if (distributed.empty()) return {};
  return TiedWith(*distributed[0], distributed, RankedTimeOf(report));
}

// Whether one variant is mirrored and the other has parameter servers.
bool AreMirroredAndServers(const Contenders& pair) {
  if (pair.rival == nullptr) return false;
  return (IsMirrored(*pair.best) && HasServers(*pair.rival)) ||
         (IsMirrored(*pair.rival) && HasServers(*pair.best));
}

}  // namespace

Ranking BySpeed(const proto::Report& report) {
  Ranking variants;
  for (const ReportVariant& variant : report.variant()) {
    if (variant.seconds().count() > 0) variants.push_back(&variant);
  }
  std::stable_sort(variants.begin(), variants.end(),
                   [](const auto* a, const auto* b) { return a->seconds().mean() < b->seconds().mean(); });
  return variants;
}

Ranking Repeated(const proto::Report& report) {
  Ranking variants = BySpeed(report);
  variants.erase(std::remove_if(variants.begin(), variants.end(), IsSingle), variants.end());
  return variants;
}

Ranking ByTimeToTarget(const proto::Report& report) {
  Ranking variants;
  for (const ReportVariant& variant : report.variant()) {
    const proto::TimeToTarget& to_target = variant.to_target();
    if (to_target.runs() > 0 && to_target.reached() == to_target.runs()) variants.push_back(&variant);
  }
  std::stable_sort(variants.begin(), variants.end(), [](const auto* a, const auto* b) {
    return a->to_target().seconds().mean() < b->to_target().seconds().mean();
  });
  return variants;
}

const ReportVariant* RivalOf(const Ranking& variants, const ReportVariant& chosen) {
  if (variants.size() < 2) return nullptr;
  const auto rival = std::find_if(variants.begin(), variants.end(), [&](const ReportVariant* variant) {
    return StrategyOf(*variant) != StrategyOf(chosen);
  });
  if (rival != variants.end()) return *rival;
  return variants[0] == &chosen ? variants[1] : variants[0];
}

std::vector<Contenders> StrategyPairs(const Ranking& variants) {
  std::vector<Contenders> pairs;
  std::set<JobStrategy> done;
  for (const ReportVariant* server : variants) {
    if (!HasServers(*server) || !done.insert(StrategyOf(*server)).second) continue;
    Contenders pair;
    bool one_batch = false;
    for (const ReportVariant* mirrored : variants) {
      if (!IsMirrored(*mirrored)) continue;
      for (const ReportVariant* other : variants) {
        if (StrategyOf(*other) != StrategyOf(*server)) continue;
        const bool equal = mirrored->global_batch() == other->global_batch();
        if (pair.best != nullptr && (one_batch || !equal)) continue;
        pair = {mirrored, other};
        one_batch = equal;
      }
    }
    if (pair.best == nullptr) continue;
    if (pair.rival->seconds().mean() < pair.best->seconds().mean()) std::swap(pair.best, pair.rival);
    pairs.push_back(pair);
  }
  return pairs;
}

Accuracy AccuracyOf(const Ranking& variants) {
  for (const Accuracy accuracy : {&ReportVariant::test_accuracy, &ReportVariant::best_accuracy}) {
    if (std::all_of(variants.begin(), variants.end(),
                    [accuracy](const ReportVariant* v) { return (v->*accuracy)().count() > 1; })) {
      return accuracy;
    }
  }
  return nullptr;
}

const ReportVariant& MostAccurateOf(const Ranking& variants, Accuracy accuracy) {
  return **std::max_element(variants.begin(), variants.end(), [accuracy](const auto* a, const auto* b) {
    return (a->*accuracy)().mean() < (b->*accuracy)().mean();
  });
}

Ranking NotSurpassed(const Ranking& variants, Accuracy accuracy) {
  if (accuracy == nullptr || variants.empty()) return variants;
  const ReportVariant& most = MostAccurateOf(variants, accuracy);
  Ranking level;
  for (const ReportVariant* variant : variants) {
    if (!IsShown((variant->*accuracy)(), (most.*accuracy)())) level.push_back(variant);
  }
  return level;
}

Ranking Eligible(const proto::Report& report) {
  const Ranking variants = Repeated(report);
  if (variants.size() < 2) return {};
  if (!report.target().given()) return NotSurpassed(variants, AccuracyOf(variants));
  Ranking reached = ByTimeToTarget(report);
  reached.erase(std::remove_if(reached.begin(), reached.end(), IsSingle), reached.end());
  return reached;
}

const proto::ReportValue& RankedTime(const proto::Report& report, const ReportVariant& variant) {
  return report.target().given() ? variant.to_target().seconds() : variant.seconds();
}

const ReportVariant* BestSlower(const proto::Report& report, const ReportVariant& choice) {
  const proto::ReportValue& own = RankedTime(report, choice);
  for (const ReportVariant* variant : report.target().given() ? Eligible(report) : Repeated(report)) {
    const proto::ReportValue& time = RankedTime(report, *variant);
    if (IsShownLess(own, time)) return variant;
  }
  return nullptr;
}

Ranking TiedWith(const ReportVariant& first, const Ranking& variants, const VariantValue& value) {
  Ranking tied = {&first};
  for (const ReportVariant* variant : variants) {
    if (variant != &first && !IsShown(value(first), value(*variant))) tied.push_back(variant);
  }
  return tied;
}

Answer AnswerOf(const proto::Report& report) {
  const Ranking eligible = Eligible(report);
  if (eligible.empty()) return {};
  const bool given = report.target().given();
  const ReportVariant& choice = *eligible[0];
  Answer answer{.choice = &choice,
                .tied = TiedWith(choice, eligible, RankedTimeOf(report)),
                .rival = nullptr,
                .several = {}};
  if (choice.workers() == 1) answer.several = WithSeveralWorkers(report, eligible);
  if (!answer.several.empty()) answer.rival = answer.several[0];
  if (answer.rival == nullptr) answer.rival = RivalOf(answer.tied, choice);
  if (answer.rival != nullptr) return answer;
  answer.rival = RivalOf(eligible, choice);
  const bool other_strategy = answer.rival != nullptr && StrategyOf(*answer.rival) != StrategyOf(choice);
  if (!given && !other_strategy) answer.rival = RivalOf(Repeated(report), choice);
  return answer;
}

Contenders AnswerPair(const proto::Report& report) {
  const Answer answer = AnswerOf(report);
  if (answer.choice != nullptr) return {answer.choice, answer.rival};
  const Ranking variants = BySpeed(report);
  if (variants.empty()) return {};
  return {variants[0], RivalOf(variants, *variants[0])};
}

Contenders ContendersOf(const proto::Report& report) {
  const Ranking variants = BySpeed(report);
  if (variants.empty()) return {};
  Contenders pair = AnswerPair(report);
  if (!AreMirroredAndServers(pair)) {
    const std::vector<Contenders> pairs = StrategyPairs(variants);
    if (!pairs.empty()) return pairs[0];
  }
  if (pair.rival == nullptr) pair.rival = RivalOf(variants, *pair.best);
  if (pair.rival != nullptr && pair.rival->seconds().mean() < pair.best->seconds().mean()) {
    std::swap(pair.best, pair.rival);
  }
  return pair;
}

}  // namespace tethys
