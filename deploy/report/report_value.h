// Arithmetic with means over runs: their intervals, the one test of a difference between two means, and the
// texts of means. Pure; any thread.
//
// Every word of a report that compares (faster, cheaper, more accurate, first) passes through DifferenceOf.
#ifndef TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_
#define TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/report.pb.h"

namespace tethys {

struct Interval {
  double low = 0;
  double high = 0;
};

// Half of the mean's symmetrical 95 % interval; negative (unknown) for fewer than two runs.
double HalfWidth(const proto::ReportValue& value);

// The mean's 95 % interval, computed from logarithms or, for shares, from logits. So the interval of a
// positive mean stays above 0, and the interval of a share within [0, 1]. The interval is cut at the bounds
// of `value`, if `value` has bounds. nullopt: all values are equal, or there are fewer than three runs, whose
// interval would be too wide to be useful.
absl::optional<Interval> IntervalOf(const proto::ReportValue& value);

inline constexpr int kFewRuns = 3;  // With fewer runs, intervals are too wide to be useful.

// The evidence for a difference between two means.
enum class Difference {
  kUnknown,  // One of the means is from a single run, so the difference may be chance.
  kNoise,    // The 95 % interval includes "no difference".
  kShown,
};

// A quotient or a difference of two means. If both variants ran with the same seeds, the interval is computed
// from the differences between runs with the same seed. There are two cases in which the interval is computed
// from the standard errors of both means instead: the seeds differ, or all differences between runs of two
// shares are equal and not 0.
struct Contrast {
  double value = 0;
  absl::optional<Interval> interval;  // nullopt: one of the means is from a single run, or not positive.
  Difference difference = Difference::kUnknown;
};
// The quotient a / b. Its interval is computed from logarithms: it lies above 0, and is the inverse of the
// interval of b / a. The interval is cut at the bounds of `a` and `b` (ReportValue.least and most), but the
// test of the difference ignores these bounds. If a mean is not positive, the value is 0, and the difference
// is tested as in PointsOf.
Contrast RatioOf(const proto::ReportValue& a, const proto::ReportValue& b);
// The difference a - b of two shares, within [-1, 1].
Contrast PointsOf(const proto::ReportValue& a, const proto::ReportValue& b);
// Half the width of the interval of `contrast`; 0: it has no interval.
double HalfOf(const Contrast& contrast);

// The one test of a difference: it tests the quotient or, for shares, the difference.
Difference DifferenceOf(const proto::ReportValue& a, const proto::ReportValue& b);
inline bool IsShown(const proto::ReportValue& a, const proto::ReportValue& b) {
  return DifferenceOf(a, b) == Difference::kShown;
}
// True if `a` is shown to be less than `b`.
inline bool IsShownLess(const proto::ReportValue& a, const proto::ReportValue& b) {
  return a.mean() < b.mean() && IsShown(a, b);
}

// The number of runs of each variant after which the present quotient of two means would be a shown
// difference, if further runs scatter as before; 0: more than 100, or not known.
int RunsToTell(const proto::ReportValue& a, const proto::ReportValue& b);

// The explanation of MeanText, for lines below tables.
inline constexpr char kIntervalNote[] =
    "x ± y, or x (low to high): with 95 % confidence the mean lies between x - y and x + y, or between low "
    "and high. Means over two runs have no interval.";

// The text of a mean: "13.70 ± 0.15", rounded to the second significant digit of the interval; if the
// interval is not nearly symmetrical, "3.3 (1.2 to 9.1)".
std::string WithInterval(double mean, const Interval& interval, absl::string_view plus_minus = "±");
// The scaled mean, with its interval if known: "13.70 ± 0.15", "13.7".
std::string MeanText(const proto::ReportValue& value, double scale = 1);
// Like MeanText, with the unit: "13.70 ± 0.15 s".
std::string SecondsText(const proto::ReportValue& seconds);
// The text of a quotient: "1.70 times"; with its interval, if that is known: "1.70 times (1.65 to 1.75)".
std::string TimesText(const Contrast& ratio);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_
