#include "workers/machine_state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/control_group.h"
#include "runtime/base/file.h"
#include "runtime/tensor/arena.h"

namespace tethys {
namespace {

constexpr int64_t kSmallFile = 1 << 16;

Nanoseconds TimeOf(clockid_t id) {
  timespec time{};
  clock_gettime(id, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

// The size, in bytes, in the line of /proc/self/status that begins with `name`; 0 if there is no such line.
int64_t StatusBytes(absl::string_view name) {
  const absl::StatusOr<std::string> text = ReadFile("/proc/self/status", kSmallFile);
  if (!text.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    int64_t kibibytes = 0;
    if (!absl::ConsumePrefix(&line, name) || !absl::ConsumeSuffix(&line, "kB")) continue;
    return absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kibibytes) ? kibibytes * 1024 : 0;
  }
  return 0;
}

}  // namespace

CpuTimes ReadCpuTimes(const Clock& clock) {
  CpuTimes times{.at = clock.Now(),
                 .thread = TimeOf(CLOCK_THREAD_CPUTIME_ID),
                 .process = TimeOf(CLOCK_PROCESS_CPUTIME_ID)};
  const absl::StatusOr<std::string> text = ReadFile("/proc/stat");
  if (!text.ok()) return times;
  const absl::StatusOr<MachineCpu> machine = ParseStat(*text, sysconf(_SC_CLK_TCK));
  if (machine.ok()) times.machine = *machine;
  return times;
}

CpuShares SharesBetween(const CpuTimes& begin, const CpuTimes& end) {
  const auto passed = static_cast<double>(std::max<Nanoseconds>(1, end.at - begin.at));
  const auto of_all = [&](Nanoseconds time) {
    return std::clamp(static_cast<double>(time) / (passed * std::max(1, end.machine.cores)), 0.0, 1.0);
  };
  return {.thread = static_cast<double>(end.thread - begin.thread) / passed,
          .steal = of_all(end.machine.stolen_ns - begin.machine.stolen_ns),
          .foreign = of_all(end.machine.busy_ns - begin.machine.busy_ns - (end.process - begin.process))};
}

CpuLimit ReadCpuLimit(const std::string& root) {
  const double cores = ReadGroupLimits(root).cores;
  const absl::StatusOr<std::string> groups = ReadFile(root + "/proc/self/cgroup", kSmallFile);
  const absl::StatusOr<std::string> mounts = ReadFile(root + "/proc/self/mountinfo", kSmallFile);
  if (cores <= 0 || !groups.ok() || !mounts.ok()) return {};
  for (const GroupPlace& place : FindGroups(*groups, *mounts)) {
    struct stat folder {};
    const bool limits_cpu = place.controller.empty() || place.controller == "cpu";
    if (!limits_cpu || stat((root + place.mount + place.path).c_str(), &folder) != 0) continue;
    // The group is named by the device and inode of its folder, because the path is the same in all
    // containers that see only their own group.
    return {.cores = cores, .group = absl::StrCat(folder.st_dev, ":", folder.st_ino)};
  }
  return {};
}

int64_t AvailableMemory() {
  const absl::StatusOr<std::string> text = ReadFile("/proc/meminfo", kSmallFile);
  if (!text.ok()) return 0;
  const absl::StatusOr<int64_t> used = ParseUsedMemory(*text);
  if (!used.ok()) return 0;
  const int64_t available = std::max<int64_t>(0, InstalledMemory() - *used),
                left = ReadGroupLimits().memory_left;
  return left < 0 ? available : std::min(available, left);
}

int64_t PeakMemory() { return StatusBytes("VmHWM:"); }

int64_t OwnMemory() { return StatusBytes("VmData:"); }

void ForgetPeak() {
  const FileDescriptor file(open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  // Writing "5" sets the peak to the memory that is resident now (proc(5)). If the file cannot be written,
  // the peak is the peak of the whole process.
  if (file.valid()) WriteFully(file.get(), "5", 1, "clear_refs").IgnoreError();
}

MemoryLimit::MemoryLimit(int64_t bytes) {
  if (bytes <= 0 || getrlimit(RLIMIT_DATA, &before_) != 0) return;
  rlimit limit = before_;
  limit.rlim_cur = std::min<rlim_t>(static_cast<rlim_t>(bytes), before_.rlim_max);
  limited_ = setrlimit(RLIMIT_DATA, &limit) == 0;
}

MemoryLimit::~MemoryLimit() {
  if (limited_) setrlimit(RLIMIT_DATA, &before_);
}

}  // namespace tethys
