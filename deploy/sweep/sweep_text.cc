// The sentences on a sweep's curve (AnswerOf in sweep_report.h).
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/statistics.h"
#include "deploy/sweep/sweep_report.h"
#include "deploy/sweep/sweep_schedule.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr double kNearlyBest = 0.95;
constexpr int kMostSegmentsInWords = 4;

// A share with two significant digits and no exponent: "3 %", "120 %".
std::string ShareText(double share) {
  const double percent = 100 * share;
  return absl::StrCat(DigitsText(percent, 2), " %");
}
std::string SignedShareText(double share) { return absl::StrCat(share < 0 ? "" : "+", ShareText(share)); }

double Rate(const proto::BatchTime& time) { return static_cast<double>(time.batch()) / time.step(); }

std::string RateText(double rate) { return DigitsText(rate, 3); }

// True if two rates differ by more than their errors explain, with 95 % confidence.
bool IsSlower(const proto::BatchTime& slower, const proto::BatchTime& faster) {
  return std::log(Rate(faster) / Rate(slower)) > kNormal975 * std::hypot(faster.error(), slower.error());
}

std::string BestText(const proto::SweepCurve& curve) {
  const auto slower = [](const auto& a, const auto& b) { return Rate(a) < Rate(b); };
  const proto::BatchTime& best = *std::max_element(curve.time().begin(), curve.time().end(), slower);
  std::vector<int64_t> level;
  for (const proto::BatchTime& time : curve.time()) {
    if (time.batch() != best.batch() && !IsSlower(time, best)) level.push_back(time.batch());
  }
  const auto nearly =
      std::find_if(curve.time().begin(), curve.time().end(),
                   [&](const proto::BatchTime& time) { return Rate(time) >= kNearlyBest * Rate(best); });
  std::string text =
      absl::StrCat("Most samples a second with batch ", best.batch(), ": ", RateText(Rate(best)));
  if (!level.empty()) {
    const auto [least, most] = std::minmax_element(level.begin(), level.end());
    absl::StrAppend(&text, ", a rate that is not shown to be higher than with ",
                    level.size() == 1
                        ? absl::StrCat("batch ", *least)
                        : absl::StrCat(level.size(), " other batches from ", *least, " to ", *most));
  }
  if (nearly->batch() < best.batch()) {
    absl::StrAppendFormat(&text, "; batch %d already reaches %.0f %% of this throughput", nearly->batch(),
                          100 * Rate(*nearly) / Rate(best));
  }
  return text + ".";
}

std::string SegmentText(const proto::Segment& segment) {
  return absl::StrCat(TimeText(segment.at_zero()), segment.per_sample() < 0 ? " − " : " + ",
                      TimeText(std::abs(segment.per_sample())), " × batch for batches ", segment.first(),
                      " to ", segment.last());
}

std::string LinesText(const proto::SweepCurve& curve) {
  if (curve.segment().empty()) return "";
  if (curve.segment_size() > kMostSegmentsInWords) {
    return absl::StrCat("A step's time follows ", curve.segment_size(), " lines with jumps between them.");
  }
  std::vector<std::string> lines;
  for (const proto::Segment& segment : curve.segment()) lines.push_back(SegmentText(segment));
  return absl::StrCat("A step takes ", absl::StrJoin(lines, "; "), ".");
}

std::string JumpText(const proto::Jump& jump) {
  std::string place = absl::StrCat("after ", jump.after());
  if (jump.least() != jump.most()) absl::StrAppend(&place, " (", jump.least(), " to ", jump.most(), ")");
  return absl::StrCat(place, " ", SignedShareText(jump.share()), " (", TimeText(jump.seconds()), ")");
}

std::string JumpsText(const proto::SweepCurve& curve) {
  if (!curve.untested().empty()) return absl::StrCat("Jumps were not tested: ", curve.untested(), ".");
  const std::string smallest = curve.detectable() > 0
                                   ? absl::StrCat(" A jump of ", ShareText(curve.detectable()),
                                                  " of the step or more would have been found.")
                                   : " The noise would have hidden even a jump of 10 %.";
  if (curve.jump().empty()) return absl::StrCat("No jumps were found.", smallest);
  std::vector<std::string> jumps;
  for (const proto::Jump& jump : curve.jump()) jumps.push_back(JumpText(jump));
  return absl::StrCat("Jumps: ", absl::StrJoin(jumps, ", "), ".", smallest);
}

std::string PeriodText(const proto::PeriodTest& test) {
  constexpr char kClaim[] = "Jumps after all multiples of 16: ";
  switch (test.verdict()) {
    case proto::PeriodTest::SEEN:
      return absl::StrCat(kClaim, "seen, ", SignedShareText(test.share()),
                          " of the median step after each multiple (95 % interval: ",
                          SignedShareText(test.low()), " to ", SignedShareText(test.high()), "); of ",
                          test.periods(), " periods that were tried, no other period fits as well.");
    case proto::PeriodTest::NOT_SEEN:
      return absl::StrCat(kClaim, "not seen; jumps of more than ", ShareText(test.excluded_above()),
                          " of the median step are excluded with 95 % confidence. Among ", test.periods(),
                          " periods, 16 has rank ", test.rank(), " by the quality of the fit.");
    default:
      return absl::StrCat(kClaim, "not testable here: ", test.reason(), ".");
  }
}

std::string LargestText(const proto::SweepCurve& curve) {
  std::string text;
  if (curve.largest_batch() > 0) {
    text = absl::StrCat("Largest batch that ran: ", CountText(curve.largest_batch()));
  } else {
    text = "The largest batch is not known";
  }
  if (curve.memory_limit() > 0) absl::StrAppend(&text, " within ", BytesText(curve.memory_limit()));
  if (curve.forecast_largest_batch() > 0) {
    absl::StrAppend(&text, "; forecast: ", CountText(curve.forecast_largest_batch()));
  }
  if (!curve.largest_untried().empty()) absl::StrAppend(&text, " (", curve.largest_untried(), ")");
  return text + ".";
}

std::string SkippedText(const proto::SweepCurve& curve) {
  if (curve.skipped().empty()) return "";
  // Only the first reason is stated: in most sweeps, all skipped batches are skipped for the same reason.
  std::vector<int64_t> batches;
  for (const proto::SkippedBatch& skipped : curve.skipped()) batches.push_back(skipped.batch());
  std::sort(batches.begin(), batches.end());
  const std::string which =
      batches.size() == 1
          ? absl::StrCat("Batch ", batches[0], " has")
          : absl::StrCat(batches.size(), " batches from ", batches.front(), " to ", batches.back(), " have");
  return absl::StrCat(which, " no measured time: ", curve.skipped(0).reason(), ".");
}

std::string EffortText(const proto::SweepCurve& curve) {
  std::string disturbed = "no measurement was disturbed by another program.";
  if (curve.disturbed() > 0) {
    disturbed =
        absl::StrCat(curve.disturbed(),
                     " measurements were put aside, because another program took a part of the processor.");
  } else if (curve.company_unseen()) {
    disturbed = "no other program took a part of the host's processor.";
  }
  return absl::StrCat("Measured in ", PluralText(curve.rounds(), "whole round"), " with ",
                      PluralText(curve.visits(), "measurement"), " in ",
                      absl::StrFormat("%.0f", curve.seconds()), " s; ", disturbed);
}

// Text on the other processes on a GPU, as far as they are known.
std::string CompanyText(const proto::SweepCurve& curve) {
  if (curve.company_unseen()) {
    return "Another program that computed on this GPU could not have been noticed: neither the driver nor "
           "the GPU's clock could show it.";
  }
  if (curve.gpu_processes() == 0) return "";
  return absl::StrCat(curve.gpu_processes(),
                      curve.gpu_processes() == 1 ? " other process" : " other processes",
                      " had this GPU open, and may occupy a part of its memory.");
}

// A warning if many visits were disturbed: even a batch whose visits were all disturbed has a time.
std::string DoubtText(const proto::SweepCurve& curve) {
  if (curve.disturbed() <= kManyDisturbed * curve.visits()) return "";
  const auto all_disturbed =
      std::count_if(curve.time().begin(), curve.time().end(),
                    [](const proto::BatchTime& time) { return time.disturbed() == time.visits(); });
  return absl::StrCat(
      all_disturbed == curve.time_size() ? "Nothing here is certain: " : "These times are doubtful: ",
      absl::StrFormat("%.0f %%", 100.0 * curve.disturbed() / curve.visits()),
      " of the measurements were disturbed by other programs",
      all_disturbed == 0 ? ""
                         : absl::StrCat(", including all measurements of ", all_disturbed, " of ",
                                        curve.time_size(), " batches"),
      ". Repeat the sweep when other programs use less of the processor.");
}

}  // namespace

proto::SweepAnswer AnswerOf(const proto::SweepCurve& curve) {
  proto::SweepAnswer answer;
  const std::string kind = curve.kind().empty() ? "" : absl::StrCat(" (kind ", curve.kind(), ")");
  answer.set_heading(
      absl::StrCat(curve.host().empty() ? "This machine" : curve.host(), kind, ", ", curve.device()));
  std::vector<std::string> sentences = {DoubtText(curve)};
  if (!curve.time().empty()) {
    for (std::string text :
         {BestText(curve), LinesText(curve), JumpsText(curve), PeriodText(curve.sixteen())}) {
      sentences.push_back(std::move(text));
    }
  }
  sentences.push_back(LargestText(curve));
  sentences.push_back(SkippedText(curve));
  sentences.push_back(EffortText(curve));
  sentences.push_back(CompanyText(curve));
  for (std::string& sentence : sentences) {
    if (!sentence.empty()) answer.add_sentence(std::move(sentence));
  }
  return answer;
}

}  // namespace tethys
