#include "deploy/report/explanation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/comparison.h"
#include "deploy/report/cpu_use.h"
#include "deploy/report/medium.h"
#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"
#include "deploy/report/variant_name.h"
#include "deploy/report/variant_strategy.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

constexpr double kVisible = 0.01;  // A part of the training time below this share is not named.
// A worker is slow if its computing takes more than this multiple of the median worker's time;
// report_page.html uses the same multiple.
constexpr double kStraggler = 1.2;

// A variant and its name in the text.
struct Subject {
  const ReportVariant* variant = nullptr;
  std::string name;
};

std::vector<Subject> SubjectsOf(const Contenders& explained) {
  std::vector<Subject> subjects;
  for (const ReportVariant* variant : {explained.best, explained.rival}) {
    if (variant == nullptr) continue;
    subjects.push_back({variant, NameInText(*variant)});
  }
  return subjects;
}

// A sentence that names the explained pair, if the answer of the report names another pair.
std::string OtherPair(const Ranking& answered, const std::vector<Subject>& subjects) {
  if (answered.empty()) return "";
  std::vector<std::string> names;
  for (const ReportVariant* variant : answered) names.push_back(NameInText(*variant));
  return absl::StrCat("These sentences compare mirrored workers with parameter servers, here ",
                      subjects.front().name, " with ", subjects.back().name,
                      "; the conclusion at the head of the report is about ", NamesText(names), ".");
}

bool Timed(const Subject& subject) { return subject.variant->step_seconds().count() > 0; }

// True if a part of the training time is large enough to be named.
bool IsNamed(const ReportValue& part, const ReportVariant& variant) {
  return part.count() > 0 && part.mean() >= kVisible * variant.seconds().mean();
}

// The parts that are large enough to be named, in at least one of the compared variants.
struct Named {
  bool data = false;
  bool records = false;
};

Named NamedParts(const std::vector<const ReportVariant*>& variants) {
  Named named;
  for (const ReportVariant* variant : variants) {
    named.data = named.data || IsNamed(variant->data_seconds(), *variant);
    named.records = named.records || IsNamed(variant->record_stall_seconds(), *variant);
  }
  return named;
}

// A worker's training time outside computation, exchange and the named parts.
double RestSeconds(const ReportVariant& variant, const Named& named) {
  return variant.seconds().mean() - variant.compute_seconds().mean() - variant.exchange_seconds().mean() -
         (named.data ? variant.data_seconds().mean() : 0) -
         (named.records ? variant.record_stall_seconds().mean() : 0);
}

// A part of the training time with its share: "3.20 ± 0.15 s (40 %)".
std::string PartText(const ReportValue& part, const ReportValue& whole) {
  const double percent = 100 * part.mean() / whole.mean();
  if (percent < 0.5) return "next to nothing";
  return absl::StrFormat("%s (%.0f %%)", SecondsText(part), percent);
}

std::string WhereTimeWent(const Subject& subject) {
  const ReportVariant& variant = *subject.variant;
  const ReportValue& whole = variant.seconds();
  const Named named = NamedParts({&variant});
  std::string text = absl::StrFormat(
      "Of its %s of training, a worker of %s needed %s to compute (forward and backward), %s to wait for the "
      "exchange of gradients and parameters, ",
      SecondsText(whole), subject.name, PartText(variant.compute_seconds(), whole),
      PartText(variant.exchange_seconds(), whole));
  if (named.data)
    absl::StrAppend(&text, PartText(variant.data_seconds(), whole), " to get batches of data, ");
  if (named.records) {
    absl::StrAppend(&text, PartText(variant.record_stall_seconds(), whole),
                    " to wait until the records of its steps were sent to the chief, ");
  }
  absl::StrAppendFormat(&text, "and %s s for all else (%supdates, ends of epochs).",
                        DigitsText(std::max(0.0, RestSeconds(variant, named)), 3),
                        named.data ? "" : "data, ");
  return text;
}

// A sentence on the parts of the difference in training time.
std::string WhatDiffers(const ReportVariant& best, const ReportVariant& rival) {
  if (DifferenceOf(best.seconds(), rival.seconds()) == Difference::kNoise) {
    return "The difference in training time between the two variants is within noise, so there is nothing to "
           "explain.";
  }
  const auto part = [&](const ReportValue& (ReportVariant::*seconds)() const) {
    return SignedDigitsText((rival.*seconds)().mean() - (best.*seconds)().mean(), 3);
  };
  const Named named = NamedParts({&best, &rival});
  std::string others;
  if (named.data) {
    absl::StrAppend(&others, "getting batches of data ", part(&ReportVariant::data_seconds), " s, ");
  }
  if (named.records) {
    absl::StrAppend(&others, "waiting to send records of steps ", part(&ReportVariant::record_stall_seconds),
                    " s, ");
  }
  const double rest = RestSeconds(rival, named) - RestSeconds(best, named);
  const bool single = std::min(best.seconds().count(), rival.seconds().count()) < 2;
  const std::string doubt = ClockDoubt(best, rival);
  const std::string remark = doubt.empty() ? ""
                                           : absl::StrCat(" These are wall-clock times, and ", doubt,
                                                          ": the times may include waiting for a core.");
  return absl::StrFormat(
      "So the difference of %s s in training time consists of: computing %s s, waiting for the exchange %s "
      "s, %sall "
      "else %s s%s.%s",
      DigitsText(rival.seconds().mean() - best.seconds().mean(), 3), part(&ReportVariant::compute_seconds),
      part(&ReportVariant::exchange_seconds), others, SignedDigitsText(rest, 3),
      single ? "; one run of each variant cannot show how much of the difference is chance" : "", remark);
}

std::string EndsOfEpochs(const std::vector<Subject>& subjects) {
  std::vector<std::string> barrier, validation;
  for (const Subject& subject : subjects) {
    const proto::Timing& timing = subject.variant->summary().timing();
    barrier.push_back(absl::StrFormat("%s s with %s", DigitsText(timing.barrier_seconds(), 2), subject.name));
    validation.push_back(
        absl::StrFormat("%s s with %s", DigitsText(timing.validation_seconds(), 2), subject.name));
  }
  return absl::StrCat("Of the training time, waiting for the last worker at the ends of epochs took ",
                      absl::StrJoin(barrier, " and "),
                      "; validation, which is not counted as training, took ",
                      absl::StrJoin(validation, " and "), ".");
}

// How the processes of a variant exchange data: ", by shared memory among 3 workers" or ", by TCP".
std::string ExchangeText(const ReportVariant& variant) {
  const std::string exchange = ExchangeOf(variant.summary());
  return absl::StrCat(", by ", exchange.empty() ? MediumOf(variant.summary()) : exchange);
}

// The machine whose processes moved the most bytes during training. With only one machine, both ends of every
// connection would be counted, so the text is empty.
std::string BusiestMachine(const ReportVariant& variant) {
  const auto traffic = [](const proto::MachineSeries& machine) {
    return machine.training().job_network_mb_per_second();
  };
  const auto& machines = variant.machine();
  if (machines.size() < 2) return "";
  const auto most = std::max_element(machines.begin(), machines.end(),
                                     [&](const auto& a, const auto& b) { return traffic(a) < traffic(b); });
  if (traffic(*most) <= 0) return "";
  return absl::StrFormat(" (the processes of this variant on %s: %s MB/s over TCP)", most->host(),
                         DigitsText(traffic(*most), 3));
}

std::string WhatMoved(const std::vector<Subject>& subjects) {
  std::vector<std::string> parts;
  bool any = false;
  for (const Subject& subject : subjects) {
    const proto::Communication& communication = subject.variant->summary().communication();
    const double bytes = communication.bytes_out_per_step() + communication.bytes_in_per_step();
    any = any || bytes > 0;
    if (bytes <= 0) {
      parts.push_back(absl::StrCat("nothing with ", subject.name));
      continue;
    }
    parts.push_back(absl::StrFormat("%s KiB with %s%s%s", DigitsText(bytes / 1024, 4), subject.name,
                                    ExchangeText(*subject.variant), BusiestMachine(*subject.variant)));
  }
  if (!any) return "";
  return absl::StrCat("In each step, a worker sent and received ", absl::StrJoin(parts, ", and "), ".");
}

std::string Staleness(const std::vector<Subject>& subjects) {
  std::string text;
  for (const Subject& subject : subjects) {
    const proto::Communication& communication = subject.variant->summary().communication();
    if (communication.mean_staleness() <= 0) continue;
    int64_t most = 0;
    for (const proto::StalenessCount& count : communication.staleness()) {
      most = std::max(most, count.staleness());
    }
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    absl::StrFormat("With %s, when a gradient was applied, the parameters from which it was "
                                    "computed were %s updates old on average, %d at most.",
                                    subject.name, DigitsText(communication.mean_staleness(), 2), most));
  }
  const bool accuracy_differs = subjects.size() == 2 && subjects[0].variant->test_accuracy().count() > 0 &&
                                subjects[1].variant->test_accuracy().count() > 0 &&
                                DifferenceOf(subjects[0].variant->test_accuracy(),
                                             subjects[1].variant->test_accuracy()) != Difference::kNoise;
  if (text.empty() || !accuracy_differs) return text;
  return absl::StrFormat(
      "%s How much of the difference in accuracy comes from old parameters is not measured: the number of "
      "updates differs, too (%d with %s, %d with %s).",
      text, subjects[0].variant->summary().steps(), subjects[0].name, subjects[1].variant->summary().steps(),
      subjects[1].name);
}

// Names a slow worker. In lock step all workers wait for the slowest one, and this time counts as waiting for
// the exchange.
std::string SlowWorker(const Subject& subject) {
  const bool lock_step = TraitsOf(*subject.variant).waits_for == WaitsFor::kAll;
  std::vector<proto::RankTime> ranks(subject.variant->rank().begin(), subject.variant->rank().end());
  if (ranks.size() < 2 || !lock_step) return "";
  std::sort(ranks.begin(), ranks.end(),
            [](const auto& a, const auto& b) { return a.compute_us() < b.compute_us(); });
  const proto::RankTime& slowest = ranks.back();
  const double median = ranks[ranks.size() / 2].compute_us();
  if (median <= 0 || slowest.compute_us() <= kStraggler * median) return "";
  return absl::StrFormat(
      "With %s the other workers waited for worker %d%s, whose own work in a step takes %s times as long "
      "as the median of all workers.",
      subject.name, slowest.rank(), slowest.host().empty() ? "" : " on " + slowest.host(),
      DigitsText(slowest.compute_us() / median, 2));
}

std::string CpuText(const Subject& subject) {
  const CpuUse use = BusiestCpu(*subject.variant);
  if (use.cores == 0) return "";
  std::string text = absl::StrFormat("%.0f %% of the %d cores of %s with %s", 100 * use.busy, use.cores,
                                     use.host, subject.name);
  if (use.busy >= kFullCpu) absl::StrAppend(&text, ", so this machine is at its limit");
  if (use.busy - use.job > kOthersCpu) {
    absl::StrAppendFormat(&text, " (other programs took %.0f %%, so the job alone may be faster)",
                          100 * (use.busy - use.job));
  }
  return text;
}

std::string Limits(const std::vector<Subject>& subjects) {
  std::vector<std::string> parts;
  bool several = false;
  bool full = false;
  for (const Subject& subject : subjects) {
    if (std::string text = CpuText(subject); !text.empty()) parts.push_back(std::move(text));
    several = several || subject.variant->machine_size() > 1;
    full = full || BusiestCpu(*subject.variant).busy >= kFullCpu;
  }
  if (parts.empty()) return "";
  std::string text =
      absl::StrCat("CPU use of the busiest machine in training, including polling by waiting processes: ",
                   absl::StrJoin(parts, ", and "), ".");
  if (full) {
    text +=
        " All times are wall-clock times: if all cores of a machine are busy, the time for any work on this "
        "machine includes waiting for a core.";
  }
  if (several) {
    text += " A run does not measure the bandwidth of the links between machines; `tethys hosts check` does.";
  }
  return text;
}

// The reason why the noise scale of a run is not known.
std::string NoNoiseReason(const ReportVariant& variant) {
  if (variant.workers() < 2) return "measuring this scale requires the gradients of several workers";
  if (TraitsOf(variant).leases()) {
    return "the gradients were computed from different versions of the parameters";
  }
  if (!variant.summary().gradient_noise().empty()) {
    return "too few steps were measured to distinguish the gradient from noise";
  }
  return "GPUs and older builds do not measure this scale";
}

// A sentence on the effect of the batch, derived from the noise of gradients by the formula of McCandlish et
// al. (2018): the steps to a given loss are in proportion to 1 + noise scale / batch.
std::string NoiseText(const Subject& subject) {
  const auto& epochs = subject.variant->summary().gradient_noise();
  const auto known = [](const proto::GradientNoise& noise) { return noise.has_samples(); };
  const auto first = std::find_if(epochs.begin(), epochs.end(), known);
  if (first == epochs.end()) {
    return absl::StrCat("The gradient-noise scale of ", subject.name,
                        " is unknown: ", NoNoiseReason(*subject.variant), ".");
  }
  const auto last = std::find_if(epochs.rbegin(), epochs.rend(), known);
  const double ratio = last->samples() / static_cast<double>(subject.variant->global_batch());
  return absl::StrFormat(
      "The gradient-noise scale of %s was %.0f samples in epoch %d and %.0f in epoch %d, with batches of %d: "
      "according to the latter value, twice the batch would need %.2f times as many steps to reach the same "
      "loss. This estimate assumes a tuned learning rate, and says nothing about the final accuracy.",
      subject.name, first->samples(), first->epoch() + 1, last->samples(), last->epoch() + 1,
      subject.variant->global_batch(), (1 + ratio / 2) / (1 + ratio));
}

}  // namespace

std::vector<std::string> Explanation(const Findings& findings) {
  const std::vector<Subject> subjects = SubjectsOf(findings.explained);
  if (subjects.empty() || !std::all_of(subjects.begin(), subjects.end(), Timed)) return {};
  std::vector<std::string> sentences = {OtherPair(findings.answered, subjects)};
  for (const Subject& subject : subjects) sentences.push_back(WhereTimeWent(subject));
  if (subjects.size() == 2) sentences.push_back(WhatDiffers(*subjects[0].variant, *subjects[1].variant));
  if (std::any_of(subjects.begin(), subjects.end(),
                  [](const Subject& subject) { return subject.variant->runs() > 1; })) {
    sentences.push_back(
        "The remaining sentences are about a single run of each variant, which the report shows in detail.");
  }
  sentences.push_back(EndsOfEpochs(subjects));
  sentences.push_back(WhatMoved(subjects));
  sentences.push_back(Staleness(subjects));
  for (const Subject& subject : subjects) sentences.push_back(SlowWorker(subject));
  for (const Subject& subject : subjects) sentences.push_back(NoiseText(subject));
  sentences.push_back(Limits(subjects));
  sentences.erase(std::remove(sentences.begin(), sentences.end(), ""), sentences.end());
  return sentences;
}

}  // namespace tethys
