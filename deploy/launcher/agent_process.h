// Runs an agent (deploy/launcher/host_agent.h) on this process's standard input and output: `tethys agent`,
// started by a launcher over ssh. Starts no threads; blocks until the connection to the launcher ends.
#ifndef TETHYS_DEPLOY_LAUNCHER_AGENT_PROCESS_H_
#define TETHYS_DEPLOY_LAUNCHER_AGENT_PROCESS_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

// Carries out the launcher's orders until the connection to the launcher ends; then returns OK. Every process
// that the launcher orders runs `program`. If the agent ends for another reason, returns this reason as an
// error.
//
// Invariant: when RunAgent returns, no process that it started is alive, not even a stopped process. If the
// agent dies, the kernel kills the processes that it started.
absl::Status RunAgent(const std::string& program);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_AGENT_PROCESS_H_
