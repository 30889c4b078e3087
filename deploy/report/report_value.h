// Arithmetic with means over runs and their errors, and their text forms. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_
#define TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/report.pb.h"

namespace tethys {

// The standard error of a mean over runs; negative (unknown) for fewer than two runs.
double StandardError(const proto::ReportValue& value);

// Half of the mean's 95 % interval by Student's t, the number after every ± in a report; negative (unknown)
// for fewer than two runs.
double HalfWidth(const proto::ReportValue& value);

// A quotient of two means with its standard error, by first-order propagation, and half of its 95 % interval
// (HalfInterval). Both are negative (unknown) if one of the means is over a single run.
struct Ratio {
  double value = 0;
  double error = -1;
  double half = -1;
};
Ratio RatioOf(const proto::ReportValue& numerator, const proto::ReportValue& denominator);

// Half the 95 % confidence interval of the difference or quotient of `a` and `b`, in units of its standard
// error: Student's t with the smaller of the two counts minus one as degrees of freedom.
double HalfInterval(const proto::ReportValue& a, const proto::ReportValue& b);

// Half of the 95 % interval of a.mean - b.mean; negative (unknown) if one of the means is over a single run.
double HalfOfDifference(const proto::ReportValue& a, const proto::ReportValue& b);

// Whether 1 lies within the 95 % confidence interval of the means' quotient. False if no error is known.
bool EqualWithinNoise(const proto::ReportValue& a, const proto::ReportValue& b);

// The evidence for a difference between two means.
enum class Difference {
  kUnknown,  // One of the means is over a single run, so the difference may be chance.
  kNoise,    // The means are equal within noise (EqualWithinNoise).
  kShown,
};
Difference DifferenceOf(const proto::ReportValue& a, const proto::ReportValue& b);

// Explains MeanText below tables.
inline constexpr char kIntervalNote[] = "x ± y means between x - y and x + y, with 95 % confidence.";

// "13.70 ± 0.15", rounded to the second significant digit of `half`, which is half of the 95 % interval and
// above 0.
std::string WithInterval(double mean, double half, absl::string_view plus_minus = "±");
// "13.70 ± 0.15": scaled, and rounded to the second significant digit of HalfWidth, if that is known.
std::string MeanText(const proto::ReportValue& value, double scale = 1);
// Like MeanText, with the unit: "13.70 ± 0.15 s".
std::string SecondsText(const proto::ReportValue& seconds);
// For example "1.70 ± 0.02 times".
std::string TimesText(const Ratio& ratio);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_
