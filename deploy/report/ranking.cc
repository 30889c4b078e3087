#include "deploy/report/ranking.h"

#include <algorithm>
#include <set>
#include <utility>

#include "deploy/report/report_value.h"
#include "deploy/report/variant_strategy.h"

namespace tethys {

using proto::ReportVariant;

bool IsRepeated(const ReportVariant* variant) { return variant->seconds().count() > 1; }

bool IsMirrored(const ReportVariant& variant) {
  return TraitsOf(variant).family == StrategyFamily::kMirrored;
}

bool HasServers(const ReportVariant& variant) { return TraitsOf(variant).servers(); }

Ranking BySpeed(const proto::Report& report) {
  Ranking variants;
  for (const ReportVariant& variant : report.variant()) {
    if (variant.seconds().count() > 0) variants.push_back(&variant);
  }
  std::stable_sort(variants.begin(), variants.end(),
                   [](const auto* a, const auto* b) { return a->seconds().mean() < b->seconds().mean(); });
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

const proto::ReportValue& RankedTime(const proto::Report& report, const ReportVariant& variant) {
  return report.target().given() ? variant.to_target().seconds() : variant.seconds();
}

Ranking TiedWith(const ReportVariant& first, const Ranking& variants, const VariantValue& value) {
  Ranking tied = {&first};
  for (const ReportVariant* variant : variants) {
    if (variant != &first && !IsShown(value(first), value(*variant))) tied.push_back(variant);
  }
  return tied;
}

}  // namespace tethys
