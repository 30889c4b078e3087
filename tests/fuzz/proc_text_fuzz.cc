// Input: files in /proc from which the use of resources is sampled.
#include <algorithm>

#include "runtime/base/control_group.h"
#include "runtime/telemetry/proc_text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

constexpr int64_t kTicksPerSecond = 100;

void CheckCounts(const absl::StatusOr<ByteCounts>& counts) {
  if (!counts.ok()) return RequireRefusal(counts.status(), "/proc/");
  Require(counts->in >= 0 && counts->out >= 0, "counts are not negative");
}

}  // namespace

void FuzzProcText(absl::string_view input) {
  const absl::StatusOr<MachineCpu> cpu = ParseStat(input, kTicksPerSecond);
  if (cpu.ok()) {
    Require(cpu->busy_ns >= 0 && cpu->cores > 0, "time is not negative and there is a core");
  } else {
    RequireRefusal(cpu.status(), "/proc/stat");
  }
  const absl::StatusOr<int64_t> used = ParseUsedMemory(input);
  if (!used.ok()) RequireRefusal(used.status(), "/proc/meminfo");
  CheckCounts(ParseNetDev(input, true));
  CheckCounts(ParseNetDev(input, false));
  CheckCounts(ParseSelfIo(input));
  CheckCounts(ParseVmstat(input));
  // The input is /proc/self/cgroup, a blank line, /proc/self/mountinfo.
  const size_t blank = std::min(input.find("\n\n"), input.size());
  for (const GroupPlace& place : FindGroups(input.substr(0, blank), input.substr(blank))) {
    Require(place.path.empty() || (place.path.front() == '/' && place.path.back() != '/'),
            "a group is empty or a path");
    Require(place.path.find("/../") == std::string::npos, "a group lies below its mount");
  }
}

}  // namespace tethys::fuzz
