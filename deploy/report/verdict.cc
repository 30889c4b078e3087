#include "deploy/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/comparison.h"
#include "deploy/report/cpu_use.h"
#include "deploy/report/headline.h"
#include "deploy/report/headline_words.h"
#include "deploy/report/job_differences.h"
#include "deploy/report/ranking.h"
#include "deploy/report/report_value.h"
#include "deploy/report/time_to_accuracy.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {
namespace {

using proto::ReportValue;
using proto::ReportVariant;

std::string PercentText(const ReportValue& share) {
  if (!IntervalOf(share).has_value()) return absl::StrFormat("%.2f %%", 100 * share.mean());
  return MeanText(share, 100) + " %";
}

// The text of a difference between accuracies: "difference -0.50 ± 1.27 points".
std::string DifferenceText(const Contrast& points) {
  const double half = points.interval.has_value() ? (points.interval->high - points.interval->low) / 2 : 0;
  return absl::StrFormat("difference %.2f ± %.2f points", 100 * points.value, 100 * half);
}

std::string AccuracySentence(const ReportVariant& best, const ReportVariant& rival) {
  const ReportValue& a = best.test_accuracy();
  const ReportValue& b = rival.test_accuracy();
  if (a.count() == 0 || b.count() == 0) return "Accuracy on a test split was not measured.";
  const std::string both = absl::StrCat(PercentText(a), " against ", PercentText(b));
  const Contrast points = PointsOf(a, b);
  switch (DifferenceOf(a, b)) {
    case Difference::kUnknown:
      return absl::StrCat("Test accuracy of the two variants, in the same order: ", both,
                          " (one run of a variant does not show an uncertainty).");
    case Difference::kShown:
      return absl::StrFormat("Test accuracy of %s is %s: %s, %s.", NameInText(best),
                             points.value > 0 ? "higher" : "lower", both, DifferenceText(points));
    case Difference::kNoise:
      break;
  }
  const std::string text = absl::StrCat(
      "No difference in test accuracy is shown between the two variants, in the same order: ", both);
  if (std::min(a.count(), b.count()) < kFewRuns) return text + ", over two runs.";
  const double half = 100 * (points.interval->high - points.interval->low) / 2;
  return absl::StrCat(
      text, ", ", DifferenceText(points),
      half < 0.005 ? "." : absl::StrFormat("; these runs cannot show a difference below %.2g points.", half));
}

// A sentence on the training times of two variants, the faster one first.
std::string TimesSentence(const ReportVariant& best, const ReportVariant& rival) {
  const std::string first = absl::StrCat(NameInText(best), " trained in ", SecondsText(best.seconds()));
  const std::string second = absl::StrCat(NameInText(rival), " in ", SecondsText(rival.seconds()));
  const Contrast ratio = RatioOf(rival.seconds(), best.seconds());
  switch (DifferenceOf(best.seconds(), rival.seconds())) {
    case Difference::kUnknown:
      return absl::StrCat(first, ", ", second, ", ", TimesText(ratio),
                          " as long; one run of a variant does not show whether the difference is chance.");
    case Difference::kNoise:
      return absl::StrCat("No difference in speed is shown: ", first, ", ", second,
                          std::min(best.seconds().count(), rival.seconds().count()) < kFewRuns
                              ? ", over two runs"
                              : absl::StrCat(", ", TimesText(ratio), " as long, which may be chance"),
                          ". More runs (tethys compare --repeats=N) may show a difference.");
    case Difference::kShown:
      break;
  }
  return absl::StrCat(first, ", ", TimesText(ratio), " as fast as ", NameInText(rival), " with ",
                      SecondsText(rival.seconds()), ".");
}

// A sentence that compares mirrored workers with parameter servers.
std::string StrategySentence(const Contenders& pair) {
  const int64_t batch = pair.best->global_batch();
  const std::string at = batch == pair.rival->global_batch()
                             ? absl::StrCat(", both with global batch ", batch)
                             : ", with different global batches";
  return absl::StrCat("Mirrored workers or parameter servers", at, ": ",
                      TimesSentence(*pair.best, *pair.rival), " ", AccuracySentence(*pair.best, *pair.rival));
}

// A sentence for the case in which the most accurate variant is not the fastest.
std::string MostAccurateSentence(const Findings& findings) {
  const Leader& leader = findings.accuracy_leader;
  if (leader.variant == nullptr) return "";
  const ReportVariant& most = *leader.variant;
  const std::string figures = absl::StrCat(NameInText(most), ", ", PercentText(most.test_accuracy()), " in ",
                                           SecondsText(most.seconds()), ".");
  if (leader.difference == Difference::kUnknown) {
    return absl::StrCat("The highest test accuracy, from a single run: ", figures);
  }
  if (leader.alone) return absl::StrCat("Most accurate of all: ", figures);
  return absl::StrCat("More accurate than ", NameInText(*findings.fastest.best), ": ", figures);
}

// The names of the first kNamed variants, and the number of others: "A, B and 2 others".
std::string CountedNames(const Ranking& variants) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(variants.size(), kNamed); ++i) names.push_back(NameInText(*variants[i]));
  if (variants.size() > kNamed) {
    names.push_back(PluralText(static_cast<int64_t>(variants.size() - kNamed), "other"));
  }
  return NamesText(names);
}

std::string CostSentence(const Findings& findings) {
  if (findings.cheapest.empty()) return "";
  const ReportVariant& least = *findings.cheapest[0];
  const std::string at = absl::StrCat(
      MeanText(least.cost()), " a run, start-up included",
      least.epoch_cost().count() > 0 ? absl::StrCat(", ", MeanText(least.epoch_cost()), " an epoch") : "",
      ", ", kCostUnit, ".");
  if (findings.cost_of_one_run) {
    return absl::StrCat("The lowest cost, from single runs, whose differences may be chance: ",
                        NameInText(least), ", at ", at);
  }
  if (findings.cheapest.size() == 1) return absl::StrCat("Cheapest: ", NameInText(least), ", at ", at);
  return absl::StrCat("No difference in cost is shown between ", CountedNames(findings.cheapest), "; ",
                      NameInText(least), " cost ", at);
}

std::string SpeedSentence(const Findings& findings) {
  const auto [best, rival] = findings.fastest;
  if (rival != nullptr) {
    return absl::StrCat(findings.fastest_alone ? "Fastest here: " : "", TimesSentence(*best, *rival));
  }
  const std::string first = absl::StrCat(NameInText(*best), " trained in ", SecondsText(best->seconds()));
  if (best->test_accuracy().count() == 0) return first + ".";
  return absl::StrCat(first, ", to a test accuracy of ", PercentText(best->test_accuracy()), ".");
}

// Lists variants with runs that did not reach the target.
std::string NotReachedText(const proto::Report& report) {
  std::string text;
  for (const ReportVariant& variant : report.variant()) {
    const proto::TimeToTarget& to_target = variant.to_target();
    const int missed = to_target.runs() - to_target.reached();
    if (missed == 0) continue;
    absl::StrAppend(&text, text.empty() ? " The target was not reached by " : "; ", missed, " of ",
                    to_target.runs(), to_target.runs() == 1 ? " run of " : " runs of ", NameInText(variant));
  }
  return text.empty() ? "" : text + ".";
}

// Names the variant that reached the target first. This variant need not be the fastest in training.
std::string FirstAtTargetText(const std::string& target, const Findings& findings) {
  const ReportVariant& first = *findings.reached[0];
  const ReportVariant& fastest = *findings.fastest.best;
  const ReportVariant* rival = findings.reached_next;
  const ReportValue& seconds = first.to_target().seconds();
  if (rival == nullptr) {
    return absl::StrCat(NameInText(first), " reached ", target, " in ", SecondsText(seconds), ".");
  }
  const ReportValue& rivals = rival->to_target().seconds();
  switch (DifferenceOf(seconds, rivals)) {
    case Difference::kUnknown:
      return absl::StrCat(target, " was reached in ", SecondsText(seconds), " by ", NameInText(first),
                          " and in ", SecondsText(rivals), " by ", NameInText(*rival),
                          "; one run of a variant does not show whether the difference is chance.");
    case Difference::kNoise:
      return absl::StrCat("No difference is shown in the time to ", target, ": ", SecondsText(seconds),
                          " with ", NameInText(first), ", ", SecondsText(rivals), " with ",
                          NameInText(*rival), ".");
    case Difference::kShown:
      break;
  }
  const std::string text = absl::StrCat(NameInText(first),
                                        !findings.first_reached_alone ? " is faster to reach "
                                        : &first == &fastest          ? " is also first to reach "
                                                                      : " is first to reach ",
                                        target, ": in ", SecondsText(seconds), ", against ",
                                        SecondsText(rivals), " for ", NameInText(*rival));
  if (rival != &fastest) return text + ".";
  const ReportValue& own = first.samples_per_second();
  const ReportValue& more = fastest.samples_per_second();
  if (!IsShownLess(own, more)) return text + ".";
  return absl::StrCat("But ", text, ", which uses ", TimesText(RatioOf(more, own)),
                      " as many samples a second.");
}

std::string TargetSentence(const proto::Report& report, const Findings& findings) {
  if (!report.has_target()) return "";
  const std::string target = TargetText(report.target());
  const Ranking& variants = findings.reached;
  if (variants.empty()) {
    return absl::StrCat("No variant reached ", target, " in all of its runs.", NotReachedText(report));
  }
  const bool at_once = std::all_of(variants.begin(), variants.end(), [](const ReportVariant* variant) {
    return variant->to_target().epochs().mean() <= 1;
  });
  return absl::StrCat(FirstAtTargetText(target, findings), NotReachedText(report),
                      at_once ? " Every variant that reached the target did so in its first epoch: a higher "
                                "--target_accuracy distinguishes the variants better."
                              : "");
}

// Lists the failed runs or, if `interrupted`, the runs that the user ended. No mean includes these runs.
std::string FailureSentence(const proto::Report& report, bool interrupted) {
  std::string text;
  for (const ReportVariant& variant : report.variant()) {
    const auto stopped = static_cast<int>(
        std::count_if(variant.run().begin(), variant.run().end(),
                      [](const proto::RunPoint& run) { return run.status() == "interrupted"; }));
    const int count = interrupted ? stopped : variant.failed() - stopped;
    if (count <= 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", count, " of ", variant.runs() + variant.failed(),
                    " runs of ", NameInText(variant));
  }
  const char* const how = interrupted ? "Interrupted" : "Failed";
  return text.empty() ? "" : absl::StrCat(how, ", and not counted in these results: ", text, ".");
}

// Lists variants whose runs exchanged gradients in different ways, so their means mix these ways.
std::string ExchangeSentence(const Ranking& variants) {
  std::string text;
  for (const ReportVariant* variant : variants) {
    std::vector<std::string> exchanges;
    for (const proto::RunPoint& run : variant->run()) {
      if (run.status() == "succeeded") exchanges.push_back(run.exchange());
    }
    const std::string different = DifferentExchanges(exchanges);
    if (different.empty()) continue;
    absl::StrAppend(&text,
                    text.empty() ? "Means over runs that did not exchange gradients in the same way: " : "; ",
                    NameInText(*variant), " (", different, ")");
  }
  return text.empty() ? "" : text + ".";
}

// Lists runs that lost processes or started again, because their times include the time that this cost.
std::string LossSentence(const Ranking& variants) {
  std::string text;
  for (const ReportVariant* variant : variants) {
    for (const proto::RunPoint& run : variant->run()) {
      if (run.status() != "succeeded" || run.losses().empty()) continue;
      absl::StrAppend(
          &text,
          text.empty()
              ? "These runs lost processes or started again, and their times include the resulting delays: "
              : "; ",
          NameInText(*variant), ", run ", run.name(), " (", run.losses(), ")");
    }
  }
  return text.empty() ? "" : text + ".";
}

// Lists differences between jobs that the variants' names do not show but that may explain results.
std::string DifferencesSentence(const proto::Report& report) {
  std::vector<std::string> names;
  for (const ReportVariant& variant : report.variant()) names.push_back(NameInText(variant));
  const std::vector<proto::JobDifference> differences(report.difference().begin(), report.difference().end());
  const std::string text = DifferencesText(differences, names);
  return text.empty()
             ? ""
             : absl::StrCat("The jobs differ in more than strategy, processes and batch: ", text, ".");
}

// Says that the variants' models compute different functions, if batch normalisation takes statistics of
// different numbers of samples.
std::string NormalisationSentence(const proto::Report& report) {
  std::map<int64_t, std::vector<std::string>, std::greater<>> names;
  for (const ReportVariant& variant : report.variant()) {
    names[variant.normalised_samples()].push_back(NameInText(variant));
  }
  if (names.size() < 2) return "";
  std::vector<std::string> parts;
  for (const auto& [samples, of] : names) {
    parts.push_back(absl::StrCat(samples == 0 ? "none" : CountText(samples), " with ", NamesText(of)));
  }
  return absl::StrCat(
      "Batch normalisation computes mean and variance over the samples that are normalised together: ",
      NamesText(parts),
      ". The variants thus compute different functions, so the strategy need not be the cause of a "
      "difference in accuracy. strategy.mirrored.synchronised_batch_normalisation normalises the samples "
      "of all workers together, and strategy.local.virtual_replicas divides the batch of one worker in the "
      "same way.");
}

// Names variants whose models hardly learned.
std::string AtChanceSentence(const Findings& findings) {
  if (findings.hardly_learned.empty()) return "";
  std::vector<std::string> names;
  for (const ReportVariant* variant : findings.hardly_learned) names.push_back(NameInText(*variant));
  return absl::StrFormat(
      "Accuracies hardly better than a guess (%.3g %%): %s. Before any comparison, check labels and data, "
      "train longer, or try another optimizer.learning_rate.",
      100 * findings.fastest.best->chance_accuracy(), NamesText(names));
}

// Warns if other programs used enough of the machine to affect the times.
std::string OthersCpuSentence(const Ranking& variants) {
  std::vector<std::string> parts;
  for (const ReportVariant* variant : variants) {
    const ReportValue& others = variant->others_cpu();
    if (others.count() == 0 || others.mean() < kOthersCpu) continue;
    parts.push_back(absl::StrFormat("%.0f %% during %s", 100 * others.mean(), NameInText(*variant)));
  }
  if (parts.empty()) return "";
  return absl::StrCat("Other programs took a part of the CPU, on average ", NamesText(parts),
                      ": the jobs alone may be faster. Repeat the runs on machines that do nothing else.");
}

// The verdict on a single run that did not succeed.
std::vector<std::string> UnfinishedRun(const ReportVariant& variant) {
  const proto::RunSummary& summary = variant.summary();
  const std::string after = absl::StrCat(" after ", PluralText(summary.epochs(), "epoch"), " and ",
                                         PluralText(summary.steps(), "update"));
  const std::string& message = summary.first_failure().message();
  const std::string how =
      !summary.ending().empty() ? summary.ending() : message.substr(0, message.find('\n'));
  const char* const ended = summary.has_first_failure() ? "failed" : "was interrupted";
  std::vector<std::string> sentences = {
      absl::StrCat("This run ", ended, after, how.empty() ? "" : ": ", how, ".")};
  if (!summary.go_on().empty()) sentences.push_back(absl::StrCat("To continue: ", summary.go_on()));
  sentences.emplace_back("The rest of this report shows the progress of the run until its end.");
  return sentences;
}

// Sentences on the limits of the conclusions.
std::vector<std::string> Reservations(const Findings& findings) {
  std::vector<std::string> sentences;
  const Ranking& variants = findings.by_speed;
  const bool single = std::any_of(variants.begin(), variants.end(),
                                  [](const ReportVariant* variant) { return variant->runs() < 2; });
  sentences.push_back(single ? "The uncertainty of a single run is not known."
                             : absl::StrCat("Here ", kIntervalNote,
                                            " Differences are tested at 95 %, between runs with the same "
                                            "seed if all variants have such runs."));
  if (findings.batches_differ) {
    sentences.push_back(
        "Global batches (workers x batch per worker) differ. An update uses one global batch, or in "
        "asynchronous training the batch of one worker, so the number of updates in an epoch differs, too, "
        "and accuracy depends on this number.");
  }
  return sentences;
}

}  // namespace

std::vector<std::string> Verdict(const proto::Report& report, const Findings& findings) {
  const Ranking& variants = findings.by_speed;
  if (variants.empty() && report.variant_size() == 1 && report.variant(0).run_size() == 1) {
    return UnfinishedRun(report.variant(0));
  }
  if (variants.empty()) return {"No run succeeded: there is nothing to compare."};
  std::vector<std::string> sentences;
  const auto add = [&sentences](std::string sentence) {
    if (sentence.empty()) return;
    sentence[0] = absl::ascii_toupper(sentence[0]);  // The sentence may begin with a name in lower case.
    sentences.push_back(std::move(sentence));
  };
  const ReportVariant* rival = findings.fastest.rival;
  if (rival != nullptr) add(HeadlineOf(report, findings).answer);
  add(SpeedSentence(findings));
  if (rival != nullptr) {
    add(AccuracySentence(*variants[0], *rival));
    for (const Contenders& pair : findings.strategy_pairs) add(StrategySentence(pair));
    add(DifferencesSentence(report));
    add(NormalisationSentence(report));
  }
  add(AtChanceSentence(findings));
  add(OthersCpuSentence(variants));
  add(TargetSentence(report, findings));
  add(FailureSentence(report, /*interrupted=*/false));
  add(FailureSentence(report, /*interrupted=*/true));
  add(ExchangeSentence(variants));
  add(LossSentence(variants));
  if (rival == nullptr) return sentences;
  add(MostAccurateSentence(findings));
  add(CostSentence(findings));
  for (std::string& reservation : Reservations(findings)) add(std::move(reservation));
  return sentences;
}

}  // namespace tethys
