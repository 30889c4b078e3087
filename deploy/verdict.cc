#include "deploy/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

// Half of the 95 % confidence interval of a difference, in standard errors. The quantile 0.975 of Student's t
// distribution; beyond the table its expansion (Abramowitz and Stegun, 26.7.5).
double HalfInterval(const ReportValue& a, const ReportValue& b) {
  constexpr std::array<double, 5> kQuantiles = {12.706, 4.303, 3.182, 2.776, 2.571};
  const int freedom = std::max(1, std::min(a.count(), b.count()) - 1);
  if (freedom <= static_cast<int>(kQuantiles.size())) return kQuantiles[freedom - 1];
  constexpr double kNormal = 1.960;
  return kNormal + (kNormal * kNormal * kNormal + kNormal) / (4.0 * freedom) +
         (5 * std::pow(kNormal, 5) + 16 * std::pow(kNormal, 3) + 3 * kNormal) / (96.0 * freedom * freedom);
}

std::string SecondsText(const ReportValue& seconds) { return MeanText(seconds) + " s"; }

std::string RatioText(const Ratio& ratio) {
  if (ratio.error < 0) return absl::StrFormat("%.2f times", ratio.value);
  return absl::StrFormat("%.2f ± %.2f times", ratio.value, ratio.error);
}

// Successful variants, the fastest first.
std::vector<const ReportVariant*> BySpeed(const proto::Report& report) {
  std::vector<const ReportVariant*> variants;
  for (const ReportVariant& variant : report.variant()) {
    if (variant.seconds().count() > 0) variants.push_back(&variant);
  }
  std::stable_sort(variants.begin(), variants.end(),
                   [](const auto* a, const auto* b) { return a->seconds().mean() < b->seconds().mean(); });
  return variants;
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
    return absl::StrCat("Test accuracy: ", both, " (one run: no uncertainty known).");
  }
  const double points = 100 * (a.mean() - b.mean());
  const double error = 100 * std::hypot(StandardError(a), StandardError(b));
  const double noise = HalfInterval(a, b) * error;
  if (std::abs(points) <= noise) {
    return absl::StrFormat(
        "Test accuracy is equal within noise: %s, difference %.2f ± %.2f points; these runs cannot show one "
        "below %.2g points.",
        both, points, error, noise);
  }
  return absl::StrFormat("Test accuracy of %s is %s by %.2f ± %.2f points: %s.", best.name(),
                         points > 0 ? "higher" : "lower", std::abs(points), error, both);
}

// Where another variant than the fastest got furthest.
std::string MostAccurateSentence(const std::vector<const ReportVariant*>& variants) {
  const auto* most = *std::max_element(variants.begin(), variants.end(), [](const auto* a, const auto* b) {
    return a->test_accuracy().mean() < b->test_accuracy().mean();
  });
  if (most == variants[0] || most->test_accuracy().count() == 0) return "";
  return absl::StrCat("Most accurate of all: ", most->name(), ", ", PercentText(most->test_accuracy()),
                      " in ", SecondsText(most->seconds()), ".");
}

std::string CostSentence(const std::vector<const ReportVariant*>& variants) {
  const ReportVariant* cheapest = nullptr;
  for (const ReportVariant* variant : variants) {
    if (variant->cost().count() == 0) return "";
    if (cheapest == nullptr || variant->cost().mean() < cheapest->cost().mean()) cheapest = variant;
  }
  return absl::StrFormat(
      "Cheapest: %s, at %s a run, start-up included, %s an epoch, in the currency of the prices.",
      cheapest->name(), MeanText(cheapest->cost()), MeanText(cheapest->epoch_cost()));
}

// Where the time of a step goes, which is why the one or the other is faster.
std::string StepText(const ReportVariant& variant) {
  const proto::PhaseMeans& phases = variant.summary().phases();
  return absl::StrFormat("%.3g ms of %.3g ms with %s, which moves %.4g KiB a worker, in and out",
                         phases.exchange_us() / 1e3, phases.total_us() / 1e3, variant.name(),
                         variant.bytes_per_step().mean() / 1024);
}

std::string WhySentence(const ReportVariant& best, const ReportVariant& rival) {
  if (!best.summary().has_phases() || !rival.summary().has_phases()) return "";
  return absl::StrCat("Of a step, waiting for the exchange takes ", StepText(best), ", and ", StepText(rival),
                      ".");
}

// What forbids to read more into the numbers than they hold.
std::vector<std::string> Reservations(const std::vector<const ReportVariant*>& variants) {
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

double StandardError(const ReportValue& value) {
  return value.count() > 1 ? value.deviation() / std::sqrt(value.count()) : -1;
}

std::string MeanText(const ReportValue& value, double scale) {
  const double mean = value.mean() * scale;
  const double error = StandardError(value) * scale;
  if (error <= 0) return absl::StrFormat("%.3g", mean);
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(error))), 0, 12);
  return absl::StrFormat("%.*f ± %.*f", decimals, mean, decimals, error);
}

Ratio RatioOf(const ReportValue& numerator, const ReportValue& denominator) {
  Ratio ratio;
  if (numerator.count() == 0 || denominator.count() == 0 || denominator.mean() == 0) return ratio;
  ratio.value = numerator.mean() / denominator.mean();
  const double above = StandardError(numerator);
  const double below = StandardError(denominator);
  if (above >= 0 && below >= 0 && numerator.mean() != 0) {
    ratio.error = ratio.value * std::hypot(above / numerator.mean(), below / denominator.mean());
  }
  return ratio;
}

std::vector<std::string> Verdict(const proto::Report& report) {
  const std::vector<const ReportVariant*> variants = BySpeed(report);
  if (variants.empty()) return {"No run succeeded: there is nothing to compare."};
  const ReportVariant& best = *variants[0];
  std::string first = absl::StrCat(best.name(), " trained in ", SecondsText(best.seconds()));
  const auto rival = std::find_if(variants.begin() + 1, variants.end(), [&](const ReportVariant* variant) {
    return variant->strategy() != best.strategy();
  });
  // Where all have one strategy, against the next.
  const ReportVariant* other = rival != variants.end() ? *rival : variants.size() > 1 ? variants[1] : nullptr;
  std::vector<std::string> sentences;
  if (other == nullptr) {
    if (best.test_accuracy().count() > 0) {
      absl::StrAppend(&first, ", to a test accuracy of ", PercentText(best.test_accuracy()));
    }
    return {first + "."};
  }
  const Ratio ratio = RatioOf(other->seconds(), best.seconds());
  const double noise = HalfInterval(other->seconds(), best.seconds()) * ratio.error;
  if (ratio.error >= 0 && ratio.value - 1 <= noise) {
    sentences.push_back(absl::StrCat("No difference in speed is shown: ", first, ", ", other->name(), " in ",
                                     SecondsText(other->seconds()), "; ", RatioText(ratio),
                                     " is 1 within noise. More runs (--repeats) may tell them apart."));
  } else {
    sentences.push_back(absl::StrCat("Fastest here: ", first, ", ", RatioText(ratio), " faster than ",
                                     other->name(), " with ", SecondsText(other->seconds()), "."));
  }
  if (std::string why = WhySentence(best, *other); !why.empty()) sentences.push_back(std::move(why));
  sentences.push_back(AccuracySentence(best, *other));
  if (std::string most = MostAccurateSentence(variants); !most.empty()) sentences.push_back(std::move(most));
  if (std::string cost = CostSentence(variants); !cost.empty()) sentences.push_back(std::move(cost));
  for (std::string& reservation : Reservations(variants)) sentences.push_back(std::move(reservation));
  return sentences;
}

}  // namespace tethys
