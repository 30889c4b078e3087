// Runs commands on other machines by the user's own ssh, so that ssh-agent, jump hosts and everything in
// ssh_config work as in a terminal. ssh never asks the user a question: instead of asking (for a password, or
// about an unknown host key), the call fails.
//
// RunEverywhere blocks up to its deadline, or for as long as data moves. It leaves no ssh process running.
// Thread-compatible; no threads are started.
#ifndef TETHYS_DEPLOY_PROCESS_SSH_H_
#define TETHYS_DEPLOY_PROCESS_SSH_H_

#include <string>
#include <vector>

#include "deploy/process/subprocess.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

struct SshTarget {
  std::string host;       // Any name that ssh accepts.
  std::string user = {};  // Empty: the user that ssh_config gives.
  int port = 0;           // 0: the port that ssh_config gives.
};

// A command that the user can type to see why ssh fails.
std::string SshTrial(const std::string& config, const SshTarget& target);

// The words of an ssh call, from "ssh" up to the host; a command for the remote shell may follow. `config`
// replaces the user's ~/.ssh/config; if it is empty, the user's file is used.
std::vector<std::string> SshCall(const std::string& config, const SshTarget& target);

struct RemoteCommand {
  std::vector<std::string> ssh = {};  // The command that SshCall returns.
  std::string command = {};           // The command that sh runs on the machine (remote_shell.h).
  std::string input_path = "/dev/null";
  // The new file that gets the standard output; empty: RemoteResult::output gets it.
  std::string output_path = {};
  bool moves_data = false;  // If true, the deadline limits the time without a byte, not the total time.
};

struct RemoteResult {
  // Unavailable: ssh itself failed; the message is the error text of ssh. Aborted: the command's exit status
  // was not 0; the message is the command's standard error. DeadlineExceeded: the time limit was reached.
  // Cancelled: an interrupt arrived that an InterruptsHeld of the caller keeps pending (signal_source.h).
  // Other errors: ssh cannot be executed, or input_path or output_path cannot be used.
  absl::Status status = {};
  std::string output = {};  // The command's standard output, at most 1 MiB.
  // The number of bytes moved to the command's standard input or from its standard output.
  int64_t moved = 0;
};

// The time limit of a command: `longest` in total or, with `moves_data`, since the last byte was moved. Pure.
class Patience {
 public:
  Patience(Nanoseconds longest, bool moves_data, Nanoseconds now)
      : longest_(longest), moves_data_(moves_data), since_(now) {}
  // `moved`: the number of bytes moved up to now.
  bool IsOver(int64_t moved, Nanoseconds now);
  absl::Status Error() const;

 private:
  const Nanoseconds longest_;
  const bool moves_data_;
  Nanoseconds since_;
  int64_t moved_ = 0;
};

// The status of an ssh process that has ended: OK, Unavailable or Aborted, as in RemoteResult. `error_path`:
// the file with the standard error of the process.
absl::Status SshStatus(const ProcessExit& exit, const std::string& error_path);

// Runs all commands at once. Each has the time limit `deadline`: in total or, with moves_data, since the last
// byte was moved. Returns the results in the order of `commands`. `scratch` is a directory for files with the
// commands' standard error.
std::vector<RemoteResult> RunEverywhere(const std::vector<RemoteCommand>& commands, Nanoseconds deadline,
                                        const std::string& scratch);

// The machine that ssh would connect to, read from its configuration ("HostName"); nothing is sent.
absl::StatusOr<std::string> SshHostName(const std::string& config, const SshTarget& target,
                                        const std::string& scratch);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_SSH_H_
