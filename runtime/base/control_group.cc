// A hierarchy of control groups is a tree of folders, one folder per group. A folder's limit also holds for
// all groups below the folder:
//
//   /proc/self/cgroup     the group, from the root that this process sees: "4:memory:/slurm/job_7"
//   /proc/self/mountinfo  the mount: "... /slurm /sys/fs/cgroup/memory ... - cgroup cgroup rw,memory"
//   the folders           /sys/fs/cgroup/memory/job_7, then /sys/fs/cgroup/memory
#include "runtime/base/control_group.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

constexpr int64_t kSmallFile = 1 << 20;
// Version 1 of control groups expresses "no limit" by the largest number of bytes in whole pages; a limit of
// kNoLimit or more counts as no limit.
constexpr int64_t kNoLimit = int64_t{1} << 60;
constexpr const char* kControllers[] = {"memory", "cpu", "pids"};

// Decodes a field of mountinfo, which writes a blank as "\040".
std::string Unescaped(absl::string_view field) {
  std::string text;
  for (size_t i = 0; i < field.size(); ++i) {
    const absl::string_view digits = field.substr(std::min(field.size(), i + 1), 3);
    const bool octal = field[i] == '\\' && digits.size() == 3 &&
                       std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '7'; });
    text += octal ? static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + digits[2] - '0')
                  : field[i];
    if (octal) i += 3;
  }
  return text;
}

struct Mount {
  std::string root, point;
};

// The first mount of each controller's hierarchy, by controller; "" stands for version 2.
std::map<std::string, Mount> FindMounts(absl::string_view mounts) {
  std::map<std::string, Mount> found;
  for (const absl::string_view line : absl::StrSplit(mounts, '\n')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<absl::string_view> front = absl::StrSplit(halves.first, ' ');
    const std::vector<absl::string_view> back = absl::StrSplit(halves.second, ' ');
    if (front.size() < 5 || back.size() < 3) continue;
    const Mount mount{Unescaped(front[3]), Unescaped(front[4])};
    if (back[0] == "cgroup2") found.emplace("", mount);
    if (back[0] != "cgroup") continue;
    for (const absl::string_view option : absl::StrSplit(back[2], ',')) {
      if (std::find(std::begin(kControllers), std::end(kControllers), option) != std::end(kControllers)) {
        found.emplace(option, mount);
      }
    }
  }
  return found;
}

// The path of `group` below a mount whose root is the group `root`.
std::string Below(absl::string_view group, absl::string_view root) {
  if (root != "/" && !absl::ConsumePrefix(&group, root)) return "";
  while (absl::ConsumeSuffix(&group, "/")) {
  }
  // `group` is not below `root`: its name only begins with the same letters.
  if (!group.empty() && group[0] != '/') return "";
  for (const absl::string_view part : absl::StrSplit(group, '/')) {
    if (part == "..") return "";  // The group lies outside of what this process sees.
  }
  return std::string(group);
}

// The number at the beginning of a file; -1: there is no number, or the file means no limit ("max").
int64_t NumberIn(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kSmallFile);
  int64_t number = 0;
  if (!text.ok() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &number)) return -1;
  return number < 0 || number >= kNoLimit ? -1 : number;
}

// The number after `key` in a file of lines "KEY NUMBER"; -1: there is no such line.
int64_t NumberAt(const std::string& path, absl::string_view key) {
  const absl::StatusOr<std::string> text = ReadFile(path, kSmallFile);
  if (!text.ok()) return -1;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    int64_t number = 0;
    if (!absl::ConsumePrefix(&line, key) || !absl::ConsumePrefix(&line, " ")) continue;
    return absl::SimpleAtoi(line, &number) && number >= 0 ? number : -1;
  }
  return -1;
}

// The number of cores that a quota allows: CPU time divided by elapsed time; -1: there is no quota.
double CoresOf(int64_t quota, int64_t period) {
  return quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : -1;
}

double QuotaIn(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kSmallFile);
  if (!text.ok()) return -1;
  const std::vector<absl::string_view> words = absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
  int64_t quota = 0, period = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &quota) || !absl::SimpleAtoi(words[1], &period)) {
    return -1;
  }
  return CoresOf(quota, period);
}

template <typename T>
void KeepLeast(T value, T& least) {
  if (value >= 0 && (least < 0 || value < least)) least = value;
}

// The unused part of a limit; -1: not known.
int64_t Left(int64_t limit, int64_t used) {
  return limit < 0 || used < 0 ? -1 : std::max<int64_t>(0, limit - used);
}

void AddMemory(int64_t limit, int64_t used, int64_t idle_files, GroupLimits& limits) {
  KeepLeast(limit, limits.memory_bytes);
  if (used >= 0) used = std::max<int64_t>(0, used - std::max<int64_t>(0, idle_files));
  KeepLeast(Left(limit, used), limits.memory_left);
}

// Adds the limits of the group in `folder`.
void AddLimits(const std::string& folder, absl::string_view controller, GroupLimits& limits) {
  const auto number = [&](const char* name) { return NumberIn(absl::StrCat(folder, "/", name)); };
  const auto stat = [&](const char* key) { return NumberAt(absl::StrCat(folder, "/memory.stat"), key); };
  const bool all = controller.empty();
  if (all) {
    for (const char* limit : {"memory.max", "memory.high"}) {
      AddMemory(number(limit), number("memory.current"), stat("inactive_file"), limits);
    }
    KeepLeast(QuotaIn(absl::StrCat(folder, "/cpu.max")), limits.cores);
  } else if (controller == "memory") {
    AddMemory(number("memory.limit_in_bytes"), number("memory.usage_in_bytes"), stat("total_inactive_file"),
              limits);
  } else if (controller == "cpu") {
    KeepLeast(CoresOf(number("cpu.cfs_quota_us"), number("cpu.cfs_period_us")), limits.cores);
  }
  if (all || controller == "pids") {
    const int64_t most = number("pids.max");
    KeepLeast(most, limits.tasks);
    KeepLeast(Left(most, number("pids.current")), limits.tasks_left);
  }
}

std::vector<GroupPlace> OwnGroups(const std::string& root) {
  const absl::StatusOr<std::string> groups = ReadFile(root + "/proc/self/cgroup", kSmallFile);
  const absl::StatusOr<std::string> mounts = ReadFile(root + "/proc/self/mountinfo", kSmallFile);
  if (!groups.ok() || !mounts.ok()) return {};
  std::vector<GroupPlace> places = FindGroups(*groups, *mounts);
  for (GroupPlace& place : places) place.mount = root + place.mount;
  return places;
}

}  // namespace

std::vector<GroupPlace> FindGroups(absl::string_view groups, absl::string_view mounts) {
  const std::map<std::string, Mount> found = FindMounts(mounts);
  std::vector<GroupPlace> places;
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    // "NUMBER:CONTROLLERS:PATH"; the path may contain colons.
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    for (const absl::string_view controller : absl::StrSplit(fields[1], ',')) {
      const auto mount = found.find(std::string(controller));
      if (mount == found.end()) continue;
      places.push_back({mount->second.point, Below(fields[2], mount->second.root), std::string(controller)});
    }
  }
  return places;
}

GroupLimits ReadGroupLimits(const std::string& root) {
  GroupLimits limits;
  for (const GroupPlace& place : OwnGroups(root)) {
    for (std::string path = place.path; !path.empty(); path.resize(path.rfind('/'))) {
      AddLimits(place.mount + path, place.controller, limits);
    }
    AddLimits(place.mount, place.controller, limits);
  }
  return limits;
}

int64_t WithinGroup(int64_t installed) {
  const int64_t limit = ReadGroupLimits().memory_bytes;
  return limit < 0 ? installed : std::min(installed, limit);
}

MemoryKills ReadMemoryKills(const std::string& root) {
  MemoryKills kills;
  for (const GroupPlace& place : OwnGroups(root)) {
    const std::string folder = place.mount + place.path;
    if (place.controller.empty()) {
      kills.group = std::max(kills.group, NumberAt(folder + "/memory.events", "oom_kill"));
    } else if (place.controller == "memory") {
      kills.group = std::max(kills.group, NumberAt(folder + "/memory.oom_control", "oom_kill"));
    }
  }
  kills.machine = NumberAt(root + "/proc/vmstat", "oom_kill");
  return kills;
}

int UsableCores(const std::string& root) {
  // Larger than the number of processors of any machine, because sched_getaffinity fails if the set is too
  // small.
  constexpr int kMostProcessors = 1 << 14;
  cpu_set_t* const set = CPU_ALLOC(kMostProcessors);
  int cores = 1;
  if (set != nullptr) {
    const size_t size = CPU_ALLOC_SIZE(kMostProcessors);
    if (sched_getaffinity(0, size, set) == 0) cores = std::max(1, CPU_COUNT_S(size, set));
    CPU_FREE(set);
  }
  const double quota = ReadGroupLimits(root).cores;
  if (quota <= 0 || quota >= cores) return cores;
  return std::max(1, static_cast<int>(std::ceil(quota)));
}

}  // namespace tethys
