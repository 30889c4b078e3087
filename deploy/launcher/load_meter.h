// The share of this machine's CPU that other programs used during a job. It is computed from counters read at
// the job's beginning and end, so it is valid even for a short job. Blocks on small files of /proc;
// thread-compatible.
#ifndef TETHYS_DEPLOY_LAUNCHER_LOAD_METER_H_
#define TETHYS_DEPLOY_LAUNCHER_LOAD_METER_H_

#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// The CPU time used until `at_ns`.
struct CpuMark {
  Nanoseconds at_ns = 0;    // The time of the mark, by the monotonic clock.
  Nanoseconds busy_ns = 0;  // The CPU time of all programs, on all cores.
  Nanoseconds own_ns = 0;   // The CPU time of this process and of its reaped descendants.
  int cores = 0;
};
// Fails if /proc/stat cannot be read.
absl::StatusOr<CpuMark> ReadCpuMark();

// The share of all cores that other programs used between the two marks, in [0, 1]. nullopt: the time between
// them is too short for the kernel's CPU clock (less than 0.1 s summed over all cores).
absl::optional<double> OthersShare(const CpuMark& begin, const CpuMark& end);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_LOAD_METER_H_
