// How much other programs used the machines while a calibration measured them. Such a calibration
// underestimates the machines, and not all by the same factor, so it may rank strategies wrongly. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_PREDICT_DISTURBANCE_H_
#define TETHYS_DEPLOY_PREDICT_DISTURBANCE_H_

#include <string>

#include "proto/calibration.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Shares of a computer's CPU time, in [0, 1].
inline constexpr double kDisturbed = 0.2;  // From this share on, a measurement is repeated and texts warn.
inline constexpr double kMostOthersCpu = 0.5;  // Above this share, no strategy is called the best.

struct Disturbance {
  double share = 0;  // The share of CPU time that other programs and the hypervisor took.
  // The first host of the computer with the largest share; empty: the share comes from the brief runs.
  std::string host;
};
// The larger of two shares: the largest share on any computer while its steps were measured, and the median
// share over the brief runs.
Disturbance DisturbanceOf(const proto::Calibration& calibration);

// For example "other programs used 86 % of the CPU of slave2"; without "of slave2" if the host is this
// machine or is not known.
std::string DisturbanceText(const Disturbance& disturbance);

// FailedPrecondition: the share is above `most`. `what` begins the error: it names the result that is
// refused.
absl::Status CheckDisturbance(const Disturbance& disturbance, double most, const std::string& what);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_DISTURBANCE_H_
