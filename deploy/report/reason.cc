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
#include "deploy/report/normalisation.h"
#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/report/variant_strategy.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

// A part that makes up at least this share of a time, or of a difference between times, is named as the main
// part.
constexpr double kMain = 0.5;
constexpr double kVisible = 0.05;  // Waiting for data is named from this share of the training time on.

// A measured part of a worker's training time.
struct Part {
  const ReportValue& (ReportVariant::*seconds)() const;
  const char* limit;  // Text for "A is limited by ...".
};
constexpr Part kComputing = {&ReportVariant::compute_seconds, "computing"};
constexpr Part kExchange = {&ReportVariant::exchange_seconds, "the exchange"};
constexpr Part kData = {&ReportVariant::data_seconds, "data"};
constexpr std::array<Part, 3> kParts = {kComputing, kExchange, kData};

double Seconds(const ReportVariant& variant, const Part& part) { return (variant.*part.seconds)().mean(); }

double Share(const ReportVariant& variant, const Part& part) {
  return Seconds(variant, part) / variant.seconds().mean();
}

bool Timed(const ReportVariant* variant) {
  return variant->step_seconds().count() > 0 && variant->seconds().mean() > 0;
}

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

// For example "a worker of A computes for 70 % of its training time and waits 20 % for the exchange, one of B
// for 35 % and 59 %". If the strategy of one variant exchanges nothing, each variant has a clause of its own.
std::string WhereTimeGoes(const Ranking& compared) {
  const bool data = std::any_of(compared.begin(), compared.end(),
                                [](const ReportVariant* v) { return Share(*v, kData) >= kVisible; });
  const bool alike = std::none_of(compared.begin(), compared.end(),
                                  [](const ReportVariant* v) { return !TraitsOf(*v).exchanges; });
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
    if (!TraitsOf(*variant).exchanges) {
      text += " and exchanges nothing";
    } else {
      absl::StrAppend(&text, data ? " and " : " and waits ", exchange, " for the exchange");
    }
  }
  return text;
}

// The part that takes at least half of the training time (kMain); empty if no part does.
std::string LimitOf(const ReportVariant& variant) {
  for (const Part& part : kParts) {
    if (Share(variant, part) >= kMain) return part.limit;
  }
  return "";
}

// What limits each variant: ", so A is limited by computing and B by the exchange".
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

// The part of the training time in which `slow` exceeds `fast` by the most seconds.
const Part& LargestDifference(const ReportVariant& fast, const ReportVariant& slow) {
  const auto more = [&](const Part& part) { return Seconds(slow, part) - Seconds(fast, part); };
  return *std::max_element(kParts.begin(), kParts.end(),
                           [&](const Part& x, const Part& y) { return more(x) < more(y); });
}

// Names the part that makes up most of a shown difference between the training times.
std::string MainDifference(const ReportVariant& a, const ReportVariant& b) {
  if (!IsShown(a.seconds(), b.seconds())) return "";
  const bool swapped = a.seconds().mean() > b.seconds().mean();
  const ReportVariant& fast = swapped ? b : a;
  const ReportVariant& slow = swapped ? a : b;
  const Part& largest = LargestDifference(fast, slow);
  const double more = Seconds(slow, largest) - Seconds(fast, largest);
  const double between = slow.seconds().mean() - fast.seconds().mean();
  if (more < kMain * between) {
    return absl::StrFormat(
        "None of these parts alone accounts for most of the %s s by which the training times differ.",
        DigitsText(between, 2));
  }
  const std::string takes =
      absl::StrFormat("%s takes %s s longer, because ", NameInText(slow), DigitsText(between, 2));
  if (largest.seconds != kComputing.seconds) {
    return absl::StrFormat("%sit waits %s s more for %s.", takes, DigitsText(more, 2), largest.limit);
  }
  const bool fewer = slow.workers() < fast.workers();
  return absl::StrFormat("%sit computes %s s more%s.", takes, DigitsText(more, 2),
                         fewer ? ": fewer workers share the samples" : "");
}

// The fields in which two jobs differ, besides strategy, processes, batch and the number of samples
// normalised together.
std::string OtherFields(const proto::Report& report, const ReportVariant& a, const ReportVariant& b) {
  std::vector<std::string> fields;
  for (const proto::JobDifference& difference : report.difference()) {
    if (difference.in_name() || difference.field() == kNormalisedTogether) continue;
    std::vector<std::string> values;
    for (int i = 0; i < std::min(report.variant_size(), difference.value_size()); ++i) {
      if (&report.variant(i) == &a || &report.variant(i) == &b) values.push_back(difference.value(i));
    }
    // An empty value means that a job has no such field.
    if (values.size() == 2 && values[0] != values[1] && !values[0].empty() && !values[1].empty()) {
      fields.push_back(difference.field());
    }
  }
  if (fields.size() > kNamed) {
    const size_t more = fields.size() - kNamed;
    fields.resize(kNamed);
    fields.push_back(absl::StrCat(more, " more"));
  }
  return NamesText(fields);
}

// Possible reasons why a variant is shown to be less accurate: stale gradients, batch-normalisation
// statistics over another number of samples, or fields of the jobs that do not belong to the strategy.
std::string AccuracyReason(const proto::Report& report, const ReportVariant& a, const ReportVariant& b) {
  const Accuracy accuracy = AccuracyOf({&a, &b});
  if (accuracy == nullptr || !IsShown((a.*accuracy)(), (b.*accuracy)())) return "";
  const bool first_less = (a.*accuracy)().mean() < (b.*accuracy)().mean();
  const ReportVariant& less = first_less ? a : b;
  const ReportVariant& more = first_less ? b : a;
  std::vector<std::string> causes;
  if (less.staleness().mean() > 0) {
    causes.push_back(
        absl::StrFormat("its gradients were computed from parameters that were %s updates old on average",
                        DigitsText(less.staleness().mean(), 2)));
  }
  const bool both_normalise = less.normalised_samples() > 0 && more.normalised_samples() > 0;
  if (both_normalise && less.normalised_samples() != more.normalised_samples()) {
    causes.push_back(absl::StrCat(
        "batch normalisation takes its statistics over ", PluralText(less.normalised_samples(), "sample"),
        " where ", NameInText(more), " takes them over ", CountText(more.normalised_samples())));
  }
  if (const std::string fields = OtherFields(report, less, more); !fields.empty()) {
    causes.push_back(absl::StrCat("their jobs differ in ", fields));
  }
  if (causes.empty()) return "";
  return absl::StrCat("Why ", NameInText(less), " is less accurate was not measured; it may be that ",
                      NamesText(causes, "or that"), ".");
}

// The load of the CPU. If the recommended variant fills the CPU of a single computer with fewer workers than
// the other variant, the text adds that more workers on this computer cannot compute faster.
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
      computers == 1 && full && fewer ? ", so more workers on this computer cannot compute faster." : ".");
}

// The epochs that each variant needs: "To reach 85 % validation accuracy A needs 3 epochs, B 5."
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

std::string Reason(const proto::Report& report, const Findings& findings) {
  const Contenders& pair = findings.pair;  // The recommended variant first.
  if (pair.rival == nullptr || findings.kind == AnswerKind::kTie) return "";
  const ReportVariant& a = *pair.best;
  const ReportVariant& b = *pair.rival;
  const Ranking compared = {&a, &b};
  std::vector<std::string> sentences;
  // A difference within noise needs no reason.
  if (DifferenceOf(RankedTime(report, a), RankedTime(report, b)) != Difference::kNoise) {
    sentences.push_back(EpochsText(report, compared));
    if (std::all_of(compared.begin(), compared.end(), Timed)) {
      const std::string doubt = ClockDoubt(a, b);
      std::string time = absl::StrCat(WhereTimeGoes(compared), doubt.empty() ? Limits(compared) : "", ".");
      time[0] = absl::ascii_toupper(time[0]);
      sentences.push_back(std::move(time));
      if (!doubt.empty()) {
        sentences.push_back(absl::StrCat(
            "These are wall-clock times, and ", doubt,
            ": the times may include waiting for a core, so they do not show what limits either variant."));
      } else if (!report.target().given()) {
        sentences.push_back(MainDifference(a, b));
      }
    }
    sentences.push_back(CpuText(compared));
  }
  sentences.push_back(AccuracyReason(report, a, b));
  sentences.erase(std::remove(sentences.begin(), sentences.end(), ""), sentences.end());
  return absl::StrJoin(sentences, " ");
}

}  // namespace tethys
