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
  // Sum over all cores since the machine started, modulo 2^62: that is 146 years of one core.
  Nanoseconds busy_ns = 0;
  int cores = 0;
};
// /proc/stat. Time stolen by a hypervisor, like waiting for a disk, is not busy.
absl::StatusOr<MachineCpu> ParseStat(absl::string_view text, int64_t ticks_per_second);

// /proc/meminfo: bytes that are not available to new processes.
absl::StatusOr<int64_t> ParseUsedMemory(absl::string_view text);

// /proc/net/dev: summed over the interfaces, the loopback only where asked for.
absl::StatusOr<ByteCounts> ParseNetDev(absl::string_view text, bool with_loopback);

// /proc/self/io: bytes that reached the disks. Read is in, written is out.
absl::StatusOr<ByteCounts> ParseSelfIo(absl::string_view text);

// /proc/vmstat: bytes that all block devices moved.
absl::StatusOr<ByteCounts> ParseVmstat(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_PROC_TEXT_H_
