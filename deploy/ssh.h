// Commands on other machines by the user's own ssh, so that the agent, jump hosts and everything in
// ssh_config work as in a terminal. Never asks a question: where ssh would (a password, an unknown host key),
// it fails.
//
// RunEverywhere blocks up to its deadline; leaves no ssh behind. Thread-compatible; no threads are started.
#ifndef TETHYS_DEPLOY_SSH_H_
#define TETHYS_DEPLOY_SSH_H_

#include <string>
#include <vector>

#include "deploy/subprocess.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

struct SshTarget {
  std::string host;       // Any name ssh understands.
  std::string user = {};  // Empty: as ssh_config says.
  int port = 0;           // 0: as ssh_config says.
};

// The call of ssh up to the host, program first; a command for the other side's shell may follow. `config` is
// a file in place of the user's ~/.ssh/config; empty: that one.
std::vector<std::string> SshCall(const std::string& config, const SshTarget& target);

struct RemoteCommand {
  std::vector<std::string> ssh = {};  // Of SshCall.
  std::string command = {};           // For sh.
  std::string input_path = "/dev/null";
};

struct RemoteResult {
  // Unavailable: ssh itself failed, with its words. Aborted: the command ended with another status than 0,
  // with what it wrote on standard error. DeadlineExceeded.
  absl::Status status;
  std::string output;        // Standard output, at most 1 MiB.
  Nanoseconds finished = 0;  // Since 1970, by the clock of this machine.
  Nanoseconds duration = 0;
};

// Of an ssh that ended: OK, Unavailable or Aborted, as above; `error_path` has its standard error.
absl::Status SshStatus(const ProcessExit& exit, const std::string& error_path);

// All at once; results in the order of `commands`. `scratch` is a directory for the words of ssh.
std::vector<RemoteResult> RunEverywhere(const std::vector<RemoteCommand>& commands, Nanoseconds deadline,
                                        const std::string& scratch);

// The machine ssh would connect to, by its configuration alone ("HostName"); nothing is sent.
absl::StatusOr<std::string> SshHostName(const std::string& config, const SshTarget& target,
                                        const std::string& scratch);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SSH_H_
