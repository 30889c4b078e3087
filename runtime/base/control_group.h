// The limits that control groups (cgroups(7), version 1 or 2) set to this process: those of its own group and
// of all groups above it, as far as this process sees them. Schedulers, containers and service managers limit
// memory, CPU time and processes in this way, and /proc/meminfo and the number of processors do not show it.
// Blocks on small files of /proc and /sys; any thread.
#ifndef TETHYS_RUNTIME_BASE_CONTROL_GROUP_H_
#define TETHYS_RUNTIME_BASE_CONTROL_GROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

// The strictest limits over the group and its parents.
struct GroupLimits {
  int64_t memory_bytes = -1;  // -1: there is no limit, or none is known.
  // What may still be taken. Files in the page cache that were not used for long do not count as used, since
  // the kernel gives them up first. -1: no limit is known.
  int64_t memory_left = -1;
  double cores = -1;        // CPU time / time; -1: there is no quota.
  int64_t tasks = -1;       // Processes and threads (pids.max); -1: there is no limit.
  int64_t tasks_left = -1;  // -1: no limit is known.
};

// `root` is "", or in tests the folder that holds other files in place of /proc and /sys.
GroupLimits ReadGroupLimits(const std::string& root = "");

// `installed` bytes of memory, or the limit of the control group if that is less.
int64_t WithinGroup(int64_t installed);

// How many processes the kernel has killed for want of memory: in this process's group (`group`), and on the
// whole machine (`machine`), since each was made. -1: not known.
struct MemoryKills {
  int64_t group = -1;
  int64_t machine = -1;
};
MemoryKills ReadMemoryKills(const std::string& root = "");

// The processors that this process may use at a time: those that it may run on (sched_setaffinity), or the
// quota of its control group, rounded up, if that is less. At least 1.
int UsableCores(const std::string& root = "");

// One hierarchy of groups as this process sees it.
struct GroupPlace {
  std::string mount;       // Where the hierarchy is mounted.
  std::string path;        // This process's group, below `mount`: empty or with a leading slash.
  std::string controller;  // "memory", "cpu", "pids"; empty: version 2, which has all.
};

// `groups` is /proc/self/cgroup, `mounts` /proc/self/mountinfo. Lines that cannot be read are passed over. A
// group that is not below its mount (the process was moved out of the group of its container) has the path
// "".
std::vector<GroupPlace> FindGroups(absl::string_view groups, absl::string_view mounts);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_CONTROL_GROUP_H_
