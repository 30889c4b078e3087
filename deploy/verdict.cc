#include "deploy/verdict.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/comparison.h"
#include "deploy/report_value.h"
#include "deploy/time_to_accuracy.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

using Ranking = std::vector<const ReportVariant*>;  // The first is the best.

// Successful variants, the fastest first.
Ranking BySpeed(const proto::Report& report) {
  Ranking variants;
  for (const ReportVariant& variant : report.variant()) {
    if (variant.seconds().count() > 0) variants.push_back(&variant);
  }
  std::stable_sort(variants.begin(), variants.end(),
                   [](const auto* a, const auto* b) { return a->seconds().mean() < b->seconds().mean(); });
  return variants;
}

// Variants whose every run reached the target, the first to do so first.
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

// Whom the best is held against: the best of another strategy, or the second; null where it is alone.
const ReportVariant* RivalOf(const Ranking& variants) {
  if (variants.size() < 2) return nullptr;
  const auto rival = std::find_if(variants.begin(), variants.end(), [&](const ReportVariant* variant) {
    return variant->strategy() != variants[0]->strategy();
  });
  return rival != variants.end() ? *rival : variants[1];
}

std::string PercentText(const ReportValue& share) {
  if (StandardError(share) <= 0) return absl::StrFormat("%.2f %%", 100 * share.mean());
  return MeanText(share, 100) + " %";
}

std::string AccuracySentence(const ReportVariant& best, const ReportVariant& rival) {
  const ReportValue& a = best.test_accuracy();
  const ReportValue& b = rival.test_accuracy();
  if (a.count() == 0 || b.count() == 0) return "Accuracy on a test split was not measured.";
  const std::string both = absl::StrCat(PercentText(a), " against ", PercentText(b));
  if (a.count() < 2 || b.count() < 2) {
    return absl::StrCat("Test accuracy, in the same order: ", both, " (one run: no uncertainty known).");
  }
  const double points = 100 * (a.mean() - b.mean());
  const double error = 100 * std::hypot(StandardError(a), StandardError(b));
  const double noise = HalfInterval(a, b) * error;
  if (std::abs(points) <= noise) {
    return absl::StrFormat(
        "Test accuracy, in the same order, is equal within noise: %s, difference %.2f ± %.2f points; "
        "these runs cannot show one below %.2g points.",
        both, points, error, noise);
  }
  return absl::StrFormat("Test accuracy of %s is %s by %.2f ± %.2f points: %s.", best.name(),
                         points > 0 ? "higher" : "lower", std::abs(points), error, both);
}

// Where another variant than the fastest got furthest.
std::string MostAccurateSentence(const Ranking& variants) {
  const auto* most = *std::max_element(variants.begin(), variants.end(), [](const auto* a, const auto* b) {
    return a->test_accuracy().mean() < b->test_accuracy().mean();
  });
  if (most == variants[0] || most->test_accuracy().count() == 0) return "";
  return absl::StrCat("Most accurate of all: ", most->name(), ", ", PercentText(most->test_accuracy()),
                      " in ", SecondsText(most->seconds()), ".");
}

std::string CostSentence(const Ranking& variants) {
  const ReportVariant* cheapest = nullptr;
  for (const ReportVariant* variant : variants) {
    if (variant->cost().count() == 0) return "";
    if (cheapest == nullptr || variant->cost().mean() < cheapest->cost().mean()) cheapest = variant;
  }
  return absl::StrFormat(
      "Cheapest: %s, at %s a run, start-up included, %s an epoch, in the currency of the prices.",
      cheapest->name(), MeanText(cheapest->cost()), MeanText(cheapest->epoch_cost()));
}

std::string SpeedSentence(const Ranking& variants) {
  const ReportVariant& best = *variants[0];
  const std::string first = absl::StrCat(best.name(), " trained in ", SecondsText(best.seconds()));
  const ReportVariant* rival = RivalOf(variants);
  if (rival == nullptr) {
    if (best.test_accuracy().count() == 0) return first + ".";
    return absl::StrCat(first, ", to a test accuracy of ", PercentText(best.test_accuracy()), ".");
  }
  const std::string times = TimesText(RatioOf(rival->seconds(), best.seconds()));
  if (EqualWithinNoise(best.seconds(), rival->seconds())) {
    return absl::StrCat("No difference in speed is shown: ", first, ", ", rival->name(), " in ",
                        SecondsText(rival->seconds()), "; ", times,
                        " is 1 within noise. More runs (--repeats) may tell them apart.");
  }
  return absl::StrCat("Fastest here: ", first, ", ", times, " faster than ", rival->name(), " with ",
                      SecondsText(rival->seconds()), ".");
}

// Of variants of which some run did not get to the target.
std::string NotReachedText(const proto::Report& report) {
  std::string text;
  for (const ReportVariant& variant : report.variant()) {
    const proto::TimeToTarget& to_target = variant.to_target();
    const int missed = to_target.runs() - to_target.reached();
    if (missed == 0) continue;
    absl::StrAppend(&text, text.empty() ? " Not reached by " : "; ", missed, " of ", to_target.runs(),
                    to_target.runs() == 1 ? " run of " : " runs of ", variant.name());
  }
  return text.empty() ? "" : text + ".";
}

// Who of those that all reached the target was there first: to be said, for it need not be the fastest.
std::string FirstAtTargetText(const std::string& target, const Ranking& variants,
                              const ReportVariant& fastest) {
  const ReportVariant& first = *variants[0];
  const ReportValue& seconds = first.to_target().seconds();
  // The fastest is a rival of the first, if it got there.
  const bool fastest_there = std::count(variants.begin(), variants.end(), &fastest) > 0;
  const ReportVariant* rival = &first != &fastest && fastest_there ? &fastest : RivalOf(variants);
  if (rival == nullptr)
    return absl::StrCat(first.name(), " reached ", target, " in ", SecondsText(seconds), ".");
  const ReportValue& rivals = rival->to_target().seconds();
  if (EqualWithinNoise(seconds, rivals)) {
    return absl::StrCat("No difference is shown in the time to ", target, ": ", SecondsText(seconds),
                        " with ", first.name(), ", ", SecondsText(rivals), " with ", rival->name(), ".");
  }
  const std::string text =
      absl::StrCat(first.name(), &first == &fastest ? " is also first at " : " is first at ", target, ": in ",
                   SecondsText(seconds), ", against ", SecondsText(rivals), " for ", rival->name());
  if (rival != &fastest) return text + ".";
  const Ratio rate = RatioOf(fastest.samples_per_second(), first.samples_per_second());
  return absl::StrCat("But ", text, ", which uses ", TimesText(rate), " as many samples a second.");
}

std::string TargetSentence(const proto::Report& report, const ReportVariant& fastest) {
  if (!report.has_target()) return "";
  const Ranking variants = ByTimeToTarget(report);
  const std::string target = TargetText(report.target());
  if (variants.empty()) {
    return absl::StrCat("No variant reached ", target, " in all of its runs.", NotReachedText(report));
  }
  const bool at_once = std::all_of(variants.begin(), variants.end(), [](const ReportVariant* variant) {
    return variant->to_target().epochs().mean() <= 1;
  });
  return absl::StrCat(
      FirstAtTargetText(target, variants, fastest), NotReachedText(report),
      at_once ? " All were there after their first epoch: a higher --target_accuracy tells more." : "");
}

// Of runs that failed, and are no part of any mean.
std::string FailureSentence(const proto::Report& report) {
  std::string text;
  for (const ReportVariant& variant : report.variant()) {
    if (variant.failed() == 0) continue;
    absl::StrAppend(&text, text.empty() ? "Failed, and left out of all this: " : "; ", variant.failed(),
                    " of ", variant.runs() + variant.failed(), " runs of ", variant.name());
  }
  return text.empty() ? "" : text + ".";
}

// Of variants whose runs differ in what is compared.
std::string ExchangeSentence(const Ranking& variants) {
  std::string text;
  for (const ReportVariant* variant : variants) {
    std::vector<std::string> exchanges;
    for (const proto::RunPoint& run : variant->run()) {
      if (run.status() == "succeeded") exchanges.push_back(run.exchange());
    }
    const std::string different = DifferentExchanges(exchanges);
    if (different.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "Means over runs that did not exchange gradients alike: " : "; ",
                    variant->name(), " (", different, ")");
  }
  return text.empty() ? "" : text + ".";
}

// What forbids to read more into the numbers than they hold.
std::vector<std::string> Reservations(const Ranking& variants) {
  std::vector<std::string> sentences;
  const bool single = std::any_of(variants.begin(), variants.end(),
                                  [](const ReportVariant* variant) { return variant->runs() < 2; });
  sentences.push_back(single ? "One run each: no uncertainty is known; repeat with --repeats=3 or more."
                             : "Here ± is the standard error of a mean over runs; noise is what lies within "
                               "a 95 % confidence interval.");
  std::set<int64_t> batches;
  for (const ReportVariant* variant : variants) batches.insert(variant->global_batch());
  if (batches.size() > 1) {
    sentences.push_back(
        "Global batches (workers x batch per worker) differ. An update uses one global batch, asynchronously "
        "one worker's, so the number of updates in an epoch differs too: compare accuracies with that in "
        "mind.");
  }
  return sentences;
}

}  // namespace

Contenders ContendersOf(const proto::Report& report) {
  const Ranking variants = BySpeed(report);
  if (variants.empty()) return {};
  return {.best = variants[0], .rival = RivalOf(variants)};
}

std::vector<std::string> Verdict(const proto::Report& report) {
  const Ranking variants = BySpeed(report);
  if (variants.empty()) return {"No run succeeded: there is nothing to compare."};
  std::vector<std::string> sentences = {SpeedSentence(variants)};
  const auto add = [&sentences](std::string sentence) {
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  };
  add(TargetSentence(report, *variants[0]));
  add(FailureSentence(report));
  add(ExchangeSentence(variants));
  const ReportVariant* rival = RivalOf(variants);
  if (rival == nullptr) return sentences;
  add(AccuracySentence(*variants[0], *rival));
  add(MostAccurateSentence(variants));
  add(CostSentence(variants));
  for (std::string& reservation : Reservations(variants)) add(std::move(reservation));
  return sentences;
}

}  // namespace tethys
