// The state of this machine that a measurement depends on: memory, and the CPU time that went to this thread,
// to other threads and to the hypervisor during the measurement. The functions may block, because they read
// small files of /proc. Any thread may call them.
#ifndef TETHYS_WORKERS_MACHINE_STATE_H_
#define TETHYS_WORKERS_MACHINE_STATE_H_

#include <sys/resource.h>

#include <cstdint>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/telemetry/proc_text.h"

namespace tethys {

// CPU times up to the moment `at`. Values that the system does not give are 0.
struct CpuTimes {
  Nanoseconds at = 0;
  Nanoseconds thread = 0;   // CPU time of the calling thread.
  Nanoseconds process = 0;  // CPU time of this process.
  MachineCpu machine = {};
};
CpuTimes ReadCpuTimes(const Clock& clock);

// Shares of the time between two moments.
struct CpuShares {
  double thread = 0;   // CPU time of the thread / time that passed.
  double steal = 0;    // Share of the time of all cores that the hypervisor took.
  double foreign = 0;  // Share of the time of all cores that other processes used.
};
CpuShares SharesBetween(const CpuTimes& begin, const CpuTimes& end);

// The limit that the control group of this process sets to its CPU time.
struct CpuLimit {
  double cores = 0;  // CPU time per wall-clock time; 0: the group has no limit.
  // A name of the group: two processes under one kernel have equal names if they are in one group. Empty: no
  // limit.
  std::string group;
};
// `root` has the meaning of ReadGroupLimits (runtime/base/control_group.h).
CpuLimit ReadCpuLimit(const std::string& root = "");

// Memory, in bytes, that this machine has for new processes: the available memory, within the limits of the
// control group and of the groups above it. 0: not known.
int64_t AvailableMemory();

// The largest memory, in bytes, that this process has used since ForgetPeak; 0: not known.
int64_t PeakMemory();
void ForgetPeak();

// Memory, in bytes, that this process alone has allocated (VmData), whether it has touched the memory or not.
// MemoryLimit limits this amount. 0: not known.
int64_t OwnMemory();

// While the object lives, this process gets at most `bytes` of memory for itself (RLIMIT_DATA); 0: no limit.
// The limit holds for the whole process.
class MemoryLimit {
 public:
  explicit MemoryLimit(int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
  bool limited_ = false;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_MACHINE_STATE_H_
