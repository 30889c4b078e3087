#include "deploy/report/reason.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/cpu_use.h"
#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

constexpr double kMain = 0.5;      // From this share of a time on, a part is its main part.
constexpr double kVisible = 0.05;  // Waiting for data is named from this share of the training time on.

// A measured part of a worker's training time.
struct Part {
  const ReportValue& (ReportVariant::*seconds)() const;
  const char* limit;     // In "A is limited by ...".
  const char* activity;  // In "the 3 s between them are mainly ...".
};
constexpr Part kComputing = {&ReportVariant::compute_seconds, "computing", "computing"};
constexpr Part kExchange = {&ReportVariant::exchange_seconds, "the exchange", "waiting for the exchange"};
constexpr Part kData = {&ReportVariant::data_seconds, "data", "waiting for data"};
constexpr std::array<Part, 3> kParts = {kComputing, kExchange, kData};

double Seconds(const ReportVariant& variant, const Part& part) { return (variant.*part.seconds)().mean(); }

double Share(const ReportVariant& variant, const Part& part) {
  return Seconds(variant, part) / variant.seconds().mean();
}

// The variants to compare, the recommended one first.
Ranking Compared(const proto::Report& report) {
  const Answer answer = AnswerOf(report);
  Ranking compared = {answer.choice, answer.rival};
  if (answer.choice == nullptr) {
    const Ranking variants = BySpeed(report);
    if (variants.size() < 2) return {};
    compared = {variants[0], RivalOf(variants, *variants[0])};
  }
  compared.erase(std::remove(compared.begin(), compared.end(), nullptr), compared.end());
  return compared;
}

bool Timed(const ReportVariant* variant) {
  return variant->step_seconds().count() > 0 && variant->seconds().mean() > 0;
}

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

// "the worker of A computes for 97 % of its training time and exchanges nothing"
std::string WhereTimeGoes(const Ranking& compared) {
  const bool data = std::any_of(compared.begin(), compared.end(),
                                [](const ReportVariant* v) { return Share(*v, kData) >= kVisible; });
  std::string text;
  std::string whole = " of its training time", what = " of gradients and parameters";  // Said once.
  for (const ReportVariant* variant : compared) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", variant->workers() == 1 ? "the" : "a", " worker of ",
                    NameInText(*variant), " computes for ", Percent(Share(*variant, kComputing)),
                    std::exchange(whole, ""));
    if (data) absl::StrAppend(&text, ", waits ", Percent(Share(*variant, kData)), " for data");
    if (variant->strategy() == "local") {
      text += " and exchanges nothing";
      continue;
    }
    absl::StrAppend(&text, data ? " and " : " and waits ", Percent(Share(*variant, kExchange)),
                    " for the exchange", std::exchange(what, ""));
  }
  return text;
}

// The part that takes most of the training time; empty if none does.
std::string LimitOf(const ReportVariant& variant) {
  for (const Part& part : kParts) {
    if (Share(variant, part) >= kMain) return part.limit;
  }
  return "";
}

// ", so A is limited by computing and B by the exchange"
std::string Limits(const Ranking& compared) {
  const std::string own = LimitOf(*compared[0]);
  const std::string other = compared.size() > 1 ? LimitOf(*compared[1]) : "";
  if (own.empty() && other.empty()) return "";
  if (own == other) return absl::StrCat(", so both are limited by ", own);
  std::vector<std::string> parts;
  for (const ReportVariant* variant : compared) {
    const std::string limit = LimitOf(*variant);
    if (limit.empty()) continue;
    parts.push_back(absl::StrCat(NameInText(*variant), parts.empty() ? " is limited by " : " by ", limit));
  }
  return absl::StrCat(", so ", absl::StrJoin(parts, " and "));
}

// Names the part that makes up most of a shown difference between the training times.
std::string MainDifference(const ReportVariant& a, const ReportVariant& b) {
  if (DifferenceOf(a.seconds(), b.seconds()) != Difference::kShown) return "";
  const bool swapped = a.seconds().mean() > b.seconds().mean();
  const ReportVariant& fast = swapped ? b : a;
  const ReportVariant& slow = swapped ? a : b;
  const auto more = [&](const Part& part) { return Seconds(slow, part) - Seconds(fast, part); };
  const Part& largest = *std::max_element(kParts.begin(), kParts.end(),
                                          [&](const Part& x, const Part& y) { return more(x) < more(y); });
  const double between = slow.seconds().mean() - fast.seconds().mean();
  if (more(largest) < kMain * between) {
    return absl::StrFormat("None of this makes up most of the %.2g s between them.", between);
  }
  return absl::StrFormat("The %.2g s between them are mainly %s: %.2g s more with %s.", between,
                         largest.activity, more(largest), NameInText(slow));
}

// Staleness, if the variant with stale gradients is shown to be less accurate.
std::string StaleGradients(const ReportVariant& a, const ReportVariant& b) {
  const Accuracy accuracy = AccuracyOf({&a, &b});
  if (accuracy == nullptr || DifferenceOf((a.*accuracy)(), (b.*accuracy)()) != Difference::kShown) return "";
  const ReportVariant& less = (a.*accuracy)().mean() < (b.*accuracy)().mean() ? a : b;
  if (less.staleness().mean() <= 0) return "";
  return absl::StrFormat(
      "Gradients of %s came from parameters that were %.2g updates old on average, which may be why it is "
      "less accurate.",
      NameInText(less), less.staleness().mean());
}

// The load of the CPU and, if the job of the recommended variant fills it with fewer workers, what follows.
std::string CpuText(const Ranking& compared) {
  std::string text;
  int computers = 0;
  int cores = 0;
  for (const ReportVariant* variant : compared) {
    const CpuUse use = BusiestCpu(*variant);
    if (use.cores == 0) return "";
    computers = std::max(computers, use.computers);
    absl::StrAppend(&text, text.empty() ? "" : ", ", Percent(use.busy),
                    use.cores != cores ? absl::StrCat(" of ", PluralText(use.cores, "core")) : "", " with ",
                    NameInText(*variant));
    cores = use.cores;
  }
  const CpuUse own = BusiestCpu(*compared[0]);
  const bool full = own.busy >= kFullCpu && own.busy - own.job <= kOthersCpu;
  const bool fewer = compared.size() > 1 && compared[0]->workers() < compared[1]->workers();
  return absl::StrCat(
      "CPU in use", computers > 1 ? " on the busiest computer: " : ": ", text,
      computers == 1 && full && fewer ? ", so more workers on it cannot compute faster." : ".");
}

// "To reach 85 % validation accuracy A needs 3 epochs, B 5."
std::string EpochsText(const proto::Report& report, const Ranking& compared) {
  if (!report.target().given()) return "";
  std::vector<std::string> parts;
  for (const ReportVariant* variant : compared) {
    const ReportValue& epochs = variant->to_target().epochs();
    if (epochs.count() == 0) return "";
    parts.push_back(absl::StrCat(NameInText(*variant), parts.empty() ? " needs " : " ", MeanText(epochs),
                                 parts.empty() ? " epochs" : ""));
  }
  return absl::StrCat("To reach ", TargetText(report.target()), " ", absl::StrJoin(parts, ", "), ".");
}

}  // namespace

std::string Reason(const proto::Report& report) {
  const Ranking compared = Compared(report);
  if (compared.empty()) return "";
  std::vector<std::string> sentences = {EpochsText(report, compared)};
  if (std::all_of(compared.begin(), compared.end(), Timed)) {
    std::string time = absl::StrCat(WhereTimeGoes(compared), Limits(compared), ".");
    time[0] = absl::ascii_toupper(time[0]);
    sentences.push_back(std::move(time));
    if (compared.size() > 1 && !report.target().given())
      sentences.push_back(MainDifference(*compared[0], *compared[1]));
  }
  if (compared.size() > 1) sentences.push_back(StaleGradients(*compared[0], *compared[1]));
  sentences.push_back(CpuText(compared));
  sentences.erase(std::remove(sentences.begin(), sentences.end(), ""), sentences.end());
  return absl::StrJoin(sentences, " ");
}

}  // namespace tethys
