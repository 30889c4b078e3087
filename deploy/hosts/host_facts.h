// What a machine says of itself, and how far its clock is off, for `tethys hosts check`. Machines need sh;
// nproc, df and nvidia-smi say more where they are. Pure.
#ifndef TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_
#define TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/process/conversation.h"

namespace tethys {

struct HostFacts {
  std::string architecture;        // Empty: it cannot tell.
  int cores = 0;                   // 0: it cannot tell. Those that a process may use.
  int64_t memory_bytes = -1;       // -1, here and below: it cannot tell.
  int64_t memory_free_bytes = -1;  // What Linux calls available.
  int64_t disk_free_bytes = -1;    // Where the home folder is.
  std::vector<std::string> gpus;   // A name each.
  std::string program;             // Its tethys of build `build`; empty: it has none.
};

// For sh, one side of a Conversation: answers "facts" with facts, and any other line with the time.
std::string FactsScript(const std::string& build);

HostFacts ParseFacts(const std::vector<std::string>& lines);

// Of a machine's clock to that of this one.
struct ClockOffset {
  double seconds = 0;  // Positive: it is ahead.
  double error = 0;    // Seconds; the offset is within seconds ± error.
};

// From answers with the time: the one of least round trip says most. Nothing when none tells a time.
std::optional<ClockOffset> FindClockOffset(const std::vector<Answer>& answers);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_FACTS_H_
