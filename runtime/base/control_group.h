// The limits that control groups (cgroups(7), version 1 or 2) set for this process: the limits of its own
// group and of all groups above it, as far as this process can see them. Schedulers, containers and service
// managers limit memory, CPU time and processes in this way; /proc/meminfo and the number of processors do
// not show these limits. Blocks on small files of /proc and /sys; any thread.
#ifndef TETHYS_RUNTIME_BASE_CONTROL_GROUP_H_
#define TETHYS_RUNTIME_BASE_CONTROL_GROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

// The strictest limits among this process's group and the groups above it.
struct GroupLimits {
  int64_t memory_bytes = -1;  // Limit on memory; -1: there is no limit, or the limit is not known.
  // Bytes of memory that the group can still allocate. Files in the page cache that were not used for long do
  // not count as used memory, because the kernel drops them first. -1: no limit is known.
  int64_t memory_left = -1;
  double cores = -1;        // Limit on the ratio of CPU time to elapsed time; -1: there is no quota.
  int64_t tasks = -1;       // Limit on processes and threads (pids.max); -1: there is no limit.
  int64_t tasks_left = -1;  // Processes and threads that may still be started; -1: no limit is known.
};

// Reads the limits. `root` is "" or, in tests, a folder with files in place of /proc and /sys.
GroupLimits ReadGroupLimits(const std::string& root = "");

// Returns `installed`, a number of bytes of memory, or the memory limit of the control group if that limit is
// smaller.
int64_t WithinGroup(int64_t installed);

// The number of processes that the kernel has killed for lack of memory: in this process's group since the
// group was created (`group`), and on the whole machine since it was booted (`machine`). -1: not known.
struct MemoryKills {
  int64_t group = -1;
  int64_t machine = -1;
};
MemoryKills ReadMemoryKills(const std::string& root = "");

// The number of processors that this process may use at the same time: the number of processors on which it
// may run (sched_setaffinity) or, if it is smaller, the quota of its control group, rounded up. At least 1.
int UsableCores(const std::string& root = "");

// One hierarchy of groups as this process sees it.
struct GroupPlace {
  std::string mount;  // The path where the hierarchy is mounted.
  std::string path;   // The path of this process's group below `mount`: empty, or with a leading slash.
  // The controller of the hierarchy: "memory", "cpu" or "pids". Empty for version 2, whose only hierarchy has
  // all controllers.
  std::string controller;
};

// Parses the texts of /proc/self/cgroup (`groups`) and /proc/self/mountinfo (`mounts`). Malformed lines are
// skipped. A group that is not below its mount (the process was moved out of the group of its container) has
// the path "".
std::vector<GroupPlace> FindGroups(absl::string_view groups, absl::string_view mounts);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_CONTROL_GROUP_H_
