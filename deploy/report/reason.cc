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

constexpr double kMain = 0.5;             // From this share of a time on, a part is its main part.
constexpr double kVisibleSpread = 0.005;  // A smaller uncertainty of an accuracy tells no variants apart.
constexpr double kVisible = 0.05;  // Waiting for data is named from this share of the training time on.

// A measured part of a worker's training time.
struct Part {
  const ReportValue& (ReportVariant::*seconds)() const;
  const char* limit;     // In "A is limited by ...".
  const char* activity;  // In "B comes next: 3 s slower than A, mainly in ...".
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
  if (BySpeed(report).size() < 2) return {};
  const Contenders pair = AnswerPair(report);
  Ranking compared = {pair.best, pair.rival};
  compared.erase(std::remove(compared.begin(), compared.end(), nullptr), compared.end());
  return compared;
}

bool Timed(const ReportVariant* variant) {
  return variant->step_seconds().count() > 0 && variant->seconds().mean() > 0;
}

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

// "a worker of A computes for 70 % of its training time and waits 20 % to exchange gradients, one of B for
// 35 % and 59 %". If one of them is a worker alone, which exchanges nothing, each has a clause of its own.
std::string WhereTimeGoes(const Ranking& compared) {
  const bool data = std::any_of(compared.begin(), compared.end(),
                                [](const ReportVariant* v) { return Share(*v, kData) >= kVisible; });
  const bool alike = std::none_of(compared.begin(), compared.end(),
                                  [](const ReportVariant* v) { return v->strategy() == "local"; });
  std::string text;
  for (const ReportVariant* variant : compared) {
    const bool one = variant->workers() == 1;
    const bool first = text.empty();
    const std::string computing = Percent(Share(*variant, kComputing));
    const std::string exchange = Percent(Share(*variant, kExchange));
    const std::string waiting = Percent(Share(*variant, kData));
    if (alike && !first) {
      absl::StrAppend(&text, ", ", one ? "that" : "one", " of ", NameInText(*variant), " for ", computing,
                      data ? absl::StrCat(", ", waiting) : "", " and ", exchange);
      continue;
    }
    absl::StrAppend(&text, first ? "" : "; ", one ? "the" : "a", " worker of ", NameInText(*variant),
                    " computes for ", computing, first ? " of its training time" : "",
                    data ? absl::StrCat(", waits ", waiting, " for data") : "");
    if (variant->strategy() == "local") {
      text += " and exchanges nothing";
    } else {
      absl::StrAppend(&text, data ? " and " : " and waits ", exchange, " to exchange gradients");
    }
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

// The part of the training time of which `slow` has most more than `fast`.
const Part& LargestDifference(const ReportVariant& fast, const ReportVariant& slow) {
  const auto more = [&](const Part& part) { return Seconds(slow, part) - Seconds(fast, part); };
  return *std::max_element(kParts.begin(), kParts.end(),
                           [&](const Part& x, const Part& y) { return more(x) < more(y); });
}

// Names the part that makes up most of a shown difference between the training times.
std::string MainDifference(const ReportVariant& a, const ReportVariant& b) {
  if (DifferenceOf(a.seconds(), b.seconds()) != Difference::kShown) return "";
  const bool swapped = a.seconds().mean() > b.seconds().mean();
  const ReportVariant& fast = swapped ? b : a;
  const ReportVariant& slow = swapped ? a : b;
  const Part& largest = LargestDifference(fast, slow);
  const double more = Seconds(slow, largest) - Seconds(fast, largest);
  const double between = slow.seconds().mean() - fast.seconds().mean();
  if (more < kMain * between) {
    return absl::StrFormat("None of this makes up most of the %.2g s between them.", between);
  }
  const std::string takes = absl::StrFormat("%s takes %.2g s longer, because ", NameInText(slow), between);
  if (largest.seconds != kComputing.seconds) {
    return absl::StrFormat("%sit waits %.2g s more for %s.", takes, more, largest.limit);
  }
  const bool fewer = slow.workers() < fast.workers();
  return absl::StrFormat("%sit computes %.2g s more%s.", takes, more,
                         fewer ? ": fewer workers share the samples" : "");
}

// The part that makes `slower`, the best variant that is shown to be slower, so.
std::string SlowerText(const ReportVariant& choice, const ReportVariant& slower) {
  const double between = slower.seconds().mean() - choice.seconds().mean();
  const Part& largest = LargestDifference(choice, slower);
  const bool main = Seconds(slower, largest) - Seconds(choice, largest) >= kMain * between;
  const bool fewer = largest.seconds == kComputing.seconds && slower.workers() < choice.workers();
  return absl::StrFormat("%s comes next: %.2g s slower than %s%s%s.", NameInText(slower), between,
                         NameInText(choice), main ? absl::StrCat(", mainly in ", largest.activity) : "",
                         main && fewer ? " with fewer workers" : "");
}

// The variant with the least value; null if several have it.
template <typename Value>
const ReportVariant* Least(const Ranking& variants, const Value& value) {
  const ReportVariant* least = nullptr;
  for (const ReportVariant* variant : variants) {
    if (least == nullptr || value(*variant) < value(*least)) least = variant;
  }
  const auto equal = [&](const ReportVariant* variant) { return value(*variant) == value(*least); };
  return std::count_if(variants.begin(), variants.end(), equal) == 1 ? least : nullptr;
}

// The advantage of one of the named variants of a tie: fewer processes, or a smaller spread of accuracy.
std::string TellApart(Ranking tied) {
  if (tied.size() < 2) return "";
  tied.resize(std::min(tied.size(), kNamed));
  std::vector<std::string> names;
  for (const ReportVariant* variant : tied) names.push_back(NameInText(*variant));
  const bool two = tied.size() == 2;
  const std::string few = two ? " has fewer processes" : " has the fewest processes";
  const std::string small = two ? "a smaller spread of accuracy" : "the smallest spread of accuracy";
  const ReportVariant* fewest = Least(tied, [](const ReportVariant& v) { return v.workers() + v.servers(); });
  const ReportVariant* steady = nullptr;
  if (const Accuracy accuracy = AccuracyOf(tied); accuracy != nullptr) {
    const auto half = [accuracy](const ReportVariant& v) { return HalfWidth((v.*accuracy)()); };
    steady = Least(tied, half);
    double widest = 0;
    for (const ReportVariant* variant : tied) widest = std::max(widest, half(*variant));
    if (steady != nullptr && (widest < kVisibleSpread || widest < 2 * half(*steady))) steady = nullptr;
  }
  std::vector<std::string> parts;
  if (fewest != nullptr) parts.push_back(absl::StrCat(NameInText(*fewest), few));
  if (steady != nullptr) {
    parts.push_back(steady == fewest ? small : absl::StrCat(NameInText(*steady), " has ", small));
  }
  if (parts.empty()) return "";
  return absl::StrCat(two ? "" : absl::StrCat("Of ", NamesText(names), ", "), absl::StrJoin(parts, " and "),
                      ".");
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
  const Ranking tied = AnswerOf(report).tied;
  const bool tie = compared.size() > 1 && std::count(tied.begin(), tied.end(), compared[1]) > 0;
  const ReportVariant* slower = tie ? BestSlower(report, *compared[0]) : nullptr;
  Ranking with_slower = compared;
  if (slower != nullptr) with_slower.push_back(slower);
  std::vector<std::string> sentences = {EpochsText(report, with_slower)};
  if (std::all_of(compared.begin(), compared.end(), Timed)) {
    std::string time = absl::StrCat(WhereTimeGoes(compared), Limits(compared), ".");
    time[0] = absl::ascii_toupper(time[0]);
    sentences.push_back(std::move(time));
    if (!report.target().given()) {
      if (slower != nullptr && Timed(slower)) sentences.push_back(SlowerText(*compared[0], *slower));
      if (compared.size() > 1 && !tie) sentences.push_back(MainDifference(*compared[0], *compared[1]));
    }
  }
  sentences.push_back(TellApart(tied));
  if (compared.size() > 1) sentences.push_back(StaleGradients(*compared[0], *compared[1]));
  if (!tie) sentences.push_back(CpuText(compared));
  sentences.erase(std::remove(sentences.begin(), sentences.end(), ""), sentences.end());
  return absl::StrJoin(sentences, " ");
}

}  // namespace tethys
