// How much of this machine's CPU other programs took while a job ran on it: measured at its beginning and its
// end, so that it holds for the shortest run. Blocking on small files of /proc; thread-compatible.
#ifndef TETHYS_DEPLOY_LAUNCHER_LOAD_METER_H_
#define TETHYS_DEPLOY_LAUNCHER_LOAD_METER_H_

#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// CPU time used up to a moment.
struct CpuMark {
  Nanoseconds at_ns = 0;    // Of the monotonic clock.
  Nanoseconds busy_ns = 0;  // Of all cores of the machine.
  Nanoseconds own_ns = 0;   // Of this process and of all its descendants that have ended.
  int cores = 0;
};
// Errors of reading /proc/stat.
absl::StatusOr<CpuMark> ReadCpuMark();

// What others used between the two, as a share of all cores, in [0, 1]. Absent: too short for the kernel's
// clock (less than 0.1 s of all cores).
absl::optional<double> OthersShare(const CpuMark& begin, const CpuMark& end);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LOAD_METER_H_
