// Quantiles of distributions, for intervals of means. Pure; any thread.
#ifndef TETHYS_DEPLOY_STATISTICS_H_
#define TETHYS_DEPLOY_STATISTICS_H_

namespace tethys {

// The quantiles of the standard normal distribution below which 95 % and 97.5 % lie.
inline constexpr double kNormal95 = 1.6449;
inline constexpr double kNormal975 = 1.96;

// The quantile of Student's t distribution with `degrees` > 0 degrees of freedom, given the quantile `normal`
// of the normal distribution for the same probability, by the expansion in Abramowitz and Stegun, 26.7.5.
// From 5 degrees on its error is below 1 %.
double StudentQuantile(double normal, double degrees);

// The quantile of Student's t distribution below which 97.5 % lie, for `degrees` >= 1: half of a 95 %
// interval in standard errors. The few degrees for which the expansion is too rough are tabulated.
double StudentQuantile975(int degrees);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STATISTICS_H_
