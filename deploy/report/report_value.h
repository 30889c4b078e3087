// Arithmetic with means over runs and their errors, and how they are written. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_
#define TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_

#include <string>

#include "proto/report.pb.h"

namespace tethys {

// Of a mean over its runs; negative for one run: nothing is known of it.
double StandardError(const proto::ReportValue& value);

// A quotient of two means with its standard error, by first-order propagation; the error is negative where
// one of them was measured only once.
struct Ratio {
  double value = 0;
  double error = -1;
};
Ratio RatioOf(const proto::ReportValue& numerator, const proto::ReportValue& denominator);

// Half of the 95 % confidence interval of a difference or quotient of the two, in its standard errors:
// Student's t with as many degrees of freedom as the less often measured of the two has runs, less one.
double HalfInterval(const proto::ReportValue& a, const proto::ReportValue& b);

// Whether the means may well be equal: 1 lies within the 95 % confidence interval of their quotient. False
// where no error is known.
bool EqualWithinNoise(const proto::ReportValue& a, const proto::ReportValue& b);

// What runs show of the difference between two means.
enum class Difference {
  kUnknown,  // One of them was measured only once: chance may have made it.
  kNoise,    // EqualWithinNoise.
  kShown,
};
Difference DifferenceOf(const proto::ReportValue& a, const proto::ReportValue& b);

// "13.70 ± 0.05": scaled, rounded where the standard error, if there is one, has its second digit.
std::string MeanText(const proto::ReportValue& value, double scale = 1);
// The same in seconds, "13.70 ± 0.05 s".
std::string SecondsText(const proto::ReportValue& seconds);
// "1.70 ± 0.02 times"
std::string TimesText(const Ratio& ratio);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_REPORT_VALUE_H_
