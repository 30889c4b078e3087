// Parses files in /proc for the resources that a machine or a process uses. Pure; any thread.
//
// Every function returns DataLoss, naming the file and the missing line, when the text is not what the kernel
// writes (proc(5)): cut short, empty, or with an invalid number.
#ifndef TETHYS_RUNTIME_TELEMETRY_PROC_TEXT_H_
#define TETHYS_RUNTIME_TELEMETRY_PROC_TEXT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// Bytes that a machine, process or connection received or read (`in`), and sent or wrote (`out`).
struct ByteCounts {
  int64_t in = 0;
  int64_t out = 0;
};

struct MachineCpu {
  // Busy time of all cores since the machine started, modulo 2^62 ns (146 years of one core).
  Nanoseconds busy_ns = 0;
  int cores = 0;
  // Time in which a core had work but a hypervisor ran other machines, also modulo 2^62 ns; 0 if the kernel
  // does not report this time.
  Nanoseconds stolen_ns = 0;
};
// From /proc/stat. Time stolen by a hypervisor or spent waiting for a disk is not busy.
absl::StatusOr<MachineCpu> ParseStat(absl::string_view text, int64_t ticks_per_second);

// From /proc/meminfo: bytes that are not available to new processes.
absl::StatusOr<int64_t> ParseUsedMemory(absl::string_view text);

// From /proc/net/dev: bytes of all interfaces; the loopback is included only if `with_loopback`.
absl::StatusOr<ByteCounts> ParseNetDev(absl::string_view text, bool with_loopback);

// From /proc/self/io: bytes that this process has read from disks (`in`) and written to disks (`out`),
// without reads that the page cache answered.
absl::StatusOr<ByteCounts> ParseSelfIo(absl::string_view text);

// From /proc/vmstat: bytes read from and written to all block devices.
absl::StatusOr<ByteCounts> ParseVmstat(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_PROC_TEXT_H_
