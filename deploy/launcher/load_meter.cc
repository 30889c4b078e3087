#include "deploy/launcher/load_meter.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/file.h"
#include "runtime/telemetry/proc_text.h"

namespace tethys {
namespace {

Nanoseconds UsedBy(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto nanoseconds = [](const timeval& time) {
    return time.tv_sec * kSecond + time.tv_usec * (kSecond / 1000000);
  };
  return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
}

}  // namespace

absl::StatusOr<CpuMark> ReadCpuMark() {
  TETHYS_ASSIGN_OR_RETURN(const std::string stat, ReadFile("/proc/stat"));
  TETHYS_ASSIGN_OR_RETURN(const MachineCpu machine, ParseStat(stat, sysconf(_SC_CLK_TCK)));
  return CpuMark{.at_ns = MonotonicClock().Now(),
                 .busy_ns = machine.busy_ns,
                 .own_ns = UsedBy(RUSAGE_SELF) + UsedBy(RUSAGE_CHILDREN),
                 .cores = machine.cores};
}

absl::optional<double> OthersShare(const CpuMark& begin, const CpuMark& end) {
  const Nanoseconds available = (end.at_ns - begin.at_ns) * end.cores;
  if (available < kSecond / 10) return absl::nullopt;
  const Nanoseconds others = (end.busy_ns - begin.busy_ns) - (end.own_ns - begin.own_ns);
  return std::clamp(static_cast<double>(others) / static_cast<double>(available), 0.0, 1.0);
}

}  // namespace tethys
