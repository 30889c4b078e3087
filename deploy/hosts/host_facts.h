// A machine's facts and its clock offset, asked before a run and by `tethys hosts check`. Machines need sh;
// nproc, df and nvidia-smi are used if present. Pure.
#ifndef TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_
#define TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/process/conversation.h"
#include "runtime/base/status.h"

namespace tethys {

struct HostFacts {
  std::string home = {};               // The home folder; empty: unknown.
  std::string architecture = {};       // Empty: unknown.
  int cores = 0;                       // Those that a process may use; 0: unknown.
  int64_t memory_bytes = -1;           // -1, here and below: unknown.
  int64_t memory_free_bytes = -1;      // MemAvailable of /proc/meminfo.
  int64_t disk_free_bytes = -1;        // On the file system of the home folder.
  std::vector<std::string> gpus = {};  // Their names.
  std::string program = {};            // The path of its tethys of this build; empty: it has none.
};

// A script for sh at the far end of a Conversation. It answers "facts" with the facts but the GPUs, and the
// time; "gpus" with the GPUs, which takes seconds on some machines; any other line with the time. A build
// that is there is marked as used, see PrepareHosts.
std::string FactsScript(const std::string& build);

// Reads the lines of answers. Malformed facts are unknown.
HostFacts ParseFacts(const std::vector<std::string>& lines);

// InvalidArgument: the home folder, which holds our builds, is unknown.
absl::Status CheckHome(const HostFacts& facts);
// FailedPrecondition: a build for `architecture` does not run there.
absl::Status CheckArchitecture(const HostFacts& facts, const std::string& architecture);
// ResourceExhausted: less than `needed_bytes` is free there.
absl::Status CheckSpace(const HostFacts& facts, int64_t needed_bytes);

// The offset of a machine's clock from this one's.
struct ClockOffset {
  double seconds = 0;  // Positive: the machine's clock is ahead.
  double error = 0;    // Seconds; the offset is within seconds ± error.
};

// Computed from the answer with the smallest error: half its round trip and half its last digit. nullopt if
// no answer has a time.
std::optional<ClockOffset> FindClockOffset(const std::vector<Answer>& answers);

// A warning if the offset is beyond 5 s even with its error; empty otherwise.
std::string ClockWarning(const std::optional<ClockOffset>& offset);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_
