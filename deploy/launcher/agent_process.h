// Runs an agent (deploy/launcher/host_agent.h) on this process's standard input and output: `tethys agent`,
// started by a launcher over ssh. Starts no threads; blocks until the launcher is gone.
#ifndef TETHYS_DEPLOY_LAUNCHER_AGENT_PROCESS_H_
#define TETHYS_DEPLOY_LAUNCHER_AGENT_PROCESS_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

// Orders start `program`. OK: the launcher is gone. Otherwise: why the agent ended.
//
// Invariant: when this returns, no process it started is alive, stopped ones included. If this process dies,
// the kernel kills them.
absl::Status RunAgent(const std::string& program);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_AGENT_PROCESS_H_
