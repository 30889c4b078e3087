#include "deploy/verdict.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

// Of a mean over its runs; negative for one run.
double StandardError(const ReportValue& value) {
  return value.count() > 1 ? value.deviation() / std::sqrt(value.count()) : -1;
}

// A mean with its standard error, where it has one.
std::string MeanText(const ReportValue& value) {
  if (value.count() < 2) return absl::StrFormat("%.3g", value.mean());
  return absl::StrFormat("%.3g ± %.2g", value.mean(), StandardError(value));
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

std::string AccuracySentence(const ReportVariant& best, const ReportVariant& rival) {
  const ReportValue& a = best.test_accuracy();
  const ReportValue& b = rival.test_accuracy();
  if (a.count() == 0 || b.count() == 0) return "Accuracy on a test split was not measured.";
  const double difference = a.mean() - b.mean();
  const std::string both = absl::StrFormat("%.4f against %.4f", a.mean(), b.mean());
  if (a.count() < 2 || b.count() < 2) {
    return absl::StrCat("Test accuracy: ", both, " (one run: no uncertainty known).");
  }
  const double error = std::hypot(StandardError(a), StandardError(b));
  if (std::abs(difference) <= 2 * error) {
    return absl::StrFormat("Test accuracy is equal within noise: %s, difference %.4f ± %.4f.", both,
                           difference, error);
  }
  return absl::StrFormat("Test accuracy of %s is %s by %.4f ± %.4f: %s.", best.name(),
                         difference > 0 ? "higher" : "lower", std::abs(difference), error, both);
}

std::string CostSentence(const std::vector<const ReportVariant*>& variants) {
  const ReportVariant* cheapest = nullptr;
  for (const ReportVariant* variant : variants) {
    if (variant->cost().count() == 0) return "";
    if (cheapest == nullptr || variant->cost().mean() < cheapest->cost().mean()) cheapest = variant;
  }
  return absl::StrFormat("Cheapest: %s, at %s a run, start-up included, in the currency of the prices.",
                         cheapest->name(), MeanText(cheapest->cost()));
}

// Where the time of a step goes, which is why the one or the other is faster.
std::string StepText(const ReportVariant& variant) {
  const proto::PhaseMeans& phases = variant.summary().phases();
  return absl::StrFormat("%.3g ms of %.3g ms with %s, which moves %.4g KiB a worker",
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
                             : "Here ± is the standard error of a mean over runs.");
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
      absl::StrAppendFormat(&first, ", to a test accuracy of %.4f", best.test_accuracy().mean());
    }
    return {first + "."};
  }
  const Ratio ratio = RatioOf(other->seconds(), best.seconds());
  if (ratio.error >= 0 && ratio.value - 1 <= 2 * ratio.error) {
    sentences.push_back(
        absl::StrCat("No difference in speed is shown: ", first, ", ", other->name(), " in ",
                     SecondsText(other->seconds()), "; ", RatioText(ratio),
                     " is within twice its error of 1. More runs (--repeats) may tell them apart."));
  } else {
    sentences.push_back(absl::StrCat("Fastest here: ", first, ", ", RatioText(ratio), " faster than ",
                                     other->name(), " with ", SecondsText(other->seconds()), "."));
  }
  if (std::string why = WhySentence(best, *other); !why.empty()) sentences.push_back(std::move(why));
  sentences.push_back(AccuracySentence(best, *other));
  if (std::string cost = CostSentence(variants); !cost.empty()) sentences.push_back(std::move(cost));
  for (std::string& reservation : Reservations(variants)) sentences.push_back(std::move(reservation));
  return sentences;
}

}  // namespace tethys
