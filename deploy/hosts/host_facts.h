// A machine's facts (such as memory, disk and GPUs) and its clock offset. The launcher asks for them before a
// run, and `tethys hosts check` shows them. Machines need sh; nproc, df and nvidia-smi are used if present.
// Pure.
#ifndef TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_
#define TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "deploy/process/conversation.h"
#include "runtime/base/status.h"

namespace tethys {

struct HostFacts {
  std::string folder = {};        // The folder for builds and run directories; empty: unknown.
  std::string architecture = {};  // The architecture that uname -m prints; empty: unknown.
  int cores = 0;                  // Cores that a process may use; 0: unknown.
  int64_t memory_bytes = -1;  // The machine's memory, limited by control groups; -1, here and below: unknown.
  int64_t memory_free_bytes = -1;      // MemAvailable of /proc/meminfo, limited by control groups.
  bool writable = true;                // False: `folder` cannot be written or created.
  int64_t disk_free_bytes = -1;        // The free bytes of the file system of `folder`.
  std::vector<std::string> gpus = {};  // The names of the GPUs.
  std::string program = {};  // The path of tethys of this build; empty: this build is not installed.
  std::set<std::string> addresses = {};  // Numeric addresses of the machine; empty: unknown.
};

// A script for sh at the far end of a Conversation. It answers the line "facts" with the time and all facts
// except GPUs, the line "gpus" with the GPUs (which takes seconds on some machines), and any other line with
// the time. If `build` is installed on the host, the line "facts" also touches the folder of the build, to
// mark the build as used (cluster_hosts.h). `folder`: the host's folder for builds; empty: ~/.cache/tethys.
std::string FactsScript(const std::string& build, const std::string& folder = "");

// Parses the lines of answers. A malformed fact counts as unknown.
HostFacts ParseFacts(const std::vector<std::string>& lines);

// InvalidArgument: the machine's folder for builds is unknown.
absl::Status CheckFolder(const HostFacts& facts);
// FailedPrecondition: the machine cannot run a build for `architecture`.
absl::Status CheckArchitecture(const HostFacts& facts, const std::string& architecture);
// PermissionDenied: the machine's folder for builds cannot be written. `origin` names the host's line in the
// host file.
absl::Status CheckWritable(const HostFacts& facts, const std::string& origin);
// ResourceExhausted: the machine's disk has less than `needed_bytes` free.
absl::Status CheckSpace(const HostFacts& facts, int64_t needed_bytes);

// The offset of a machine's clock from the clock of this machine.
struct ClockOffset {
  double seconds = 0;  // Positive: the machine's clock is ahead.
  double error = 0;    // Seconds; the offset is within seconds ± error.
};

// Computes the offset from the answer with the smallest error. An answer's error is half of its round trip
// plus half the width of the last digit of its time. nullopt: no answer has a time.
std::optional<ClockOffset> FindClockOffset(const std::vector<Answer>& answers);

// A warning if the offset exceeds 5 s even after subtracting its error; empty otherwise.
std::string ClockWarning(const std::optional<ClockOffset>& offset);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_
