// How much other programs used the machines while a calibration measured them. Such a calibration takes the
// machines for slower than they are, and not all by the same factor, so it may rank strategies wrongly. Pure;
// any thread.
#ifndef TETHYS_DEPLOY_PREDICT_DISTURBANCE_H_
#define TETHYS_DEPLOY_PREDICT_DISTURBANCE_H_

#include <string>

#include "proto/calibration.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Shares of a computer's CPU time, in [0, 1].
inline constexpr double kDisturbed = 0.2;      // From here on, a measurement is repeated and texts warn.
inline constexpr double kMostOthersCpu = 0.5;  // Beyond this, no strategy is called the best.

struct Disturbance {
  double share = 0;  // The CPU time that other programs and the hypervisor took.
  std::string host;  // The computer on which it was most, by its first host; empty: seen in the brief runs.
};
// The largest share: while a computer's steps were measured, or the median over the brief runs.
Disturbance DisturbanceOf(const proto::Calibration& calibration);

// "other programs used 86 % of the CPU of slave2", without "of slave2" if no host or this machine is meant.
std::string DisturbanceText(const Disturbance& disturbance);

// FailedPrecondition: the share is above `most`. `what` begins the error: what is not done because of it.
absl::Status CheckDisturbance(const Disturbance& disturbance, double most, const std::string& what);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_DISTURBANCE_H_
