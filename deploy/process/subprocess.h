// Child processes of the launcher, and of its agents on other machines. A child ends with its parent: when
// the parent dies, the kernel kills the child, and the child's standard input, a pipe, reaches end of file.
//
// Spawn must be called on the main thread: the kernel sends the death signal when the thread that forked the
// child ends. Between fork and exec the child makes system calls only, so this process may have other
// threads. Thread-compatible. Only the destructor waits for a child to end, after killing the child.
#ifndef TETHYS_DEPLOY_PROCESS_SUBPROCESS_H_
#define TETHYS_DEPLOY_PROCESS_SUBPROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/control_group.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

struct SpawnOptions {
  std::string program = {};                 // Searched in PATH if it has no slash.
  std::vector<std::string> arguments = {};  // The arguments after argv[0].
  std::string name = "tethys";              // The text of argv[0].
  std::string input = {};                   // First text on the child's standard input; at most 4 KiB.
  std::string input_path = {};              // If set, standard input is this file instead.
  std::string log_path = {};                // The file to which standard error is appended.
  bool read_log = false;                    // If true, standard error is read from log() instead.
  // True: standard output is read from output(). False: standard output goes where standard error goes.
  bool read_output = false;
};

// How a process ended.
struct ProcessExit {
  int signal = 0;  // The signal that killed the process, or 0.
  int code = 0;    // The process's exit status, if no signal killed the process.
  // True if the process ran on another machine and the connection to that machine broke.
  bool connection_lost = false;
  std::string reason = {};  // Why the connection broke or the signal came, if known.
  bool clean() const { return signal == 0 && code == 0 && !connection_lost; }
  // True if the process did not end by itself: it was killed, or the connection to it broke.
  bool abrupt() const { return signal != 0 || connection_lost; }
};
// One of "was killed by signal 9 (Killed)", "exited with status 1", "lost its ssh connection (REASON)".
std::string ExitText(const ProcessExit& exit);
// The likely cause of a SIGKILL that this program did not send, in most cases a lack of memory. `before` and
// `after`: the kernel's counts of kills for lack of memory, before the process started and after it ended.
// `limit_bytes`: the memory limit of the control group; -1: there is none. Pure.
std::string KillReason(const MemoryKills& before, const MemoryKills& after, int64_t limit_bytes);

// Invariants:
//  1. The child holds no descriptors but 0, 1 and 2. So no child holds this process's end of another child's
//     pipe, and each child sees end of file when this process closes its end.
//  2. The child is in a process group of its own: a Ctrl-C in the terminal reaches the launcher only.
//  3. The destructor leaves no process behind: it kills and reaps the child.
class Subprocess {
 public:
  // NotFound, PermissionDenied: the program cannot be executed. The log then has no line about this error.
  static absl::StatusOr<Subprocess> Spawn(const SpawnOptions& options);
  ~Subprocess();
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) = delete;

  pid_t pid() const { return pid_; }
  // The read end of standard output, non-blocking; -1 without read_output.
  int output() const { return output_.get(); }
  // The read end of standard error, non-blocking; -1 without read_log.
  int log() const { return log_.get(); }
  // The write end of standard input; -1 once closed.
  int input() const { return input_.get(); }

  // How many bytes of the file input_path the child has read; 0 without input_path.
  int64_t input_offset() const;

  // Writes `text`, at most PIPE_BUF bytes, to the child's standard input; false if the write fails. Requires
  // SIGPIPE to be ignored.
  bool Say(const std::string& text);
  // Closes the child's standard input.
  void CloseInput() { input_.Close(); }

  // Reaps the child if it has ended. Never blocks.
  const std::optional<ProcessExit>& Poll();
  const std::optional<ProcessExit>& exit() const { return exit_; }

  // Sends the signal to the child's process group and resumes the group if it is stopped. No-op once the
  // child has been reaped.
  void Signal(int signal);

 private:
  Subprocess() = default;

  pid_t pid_ = -1;
  FileDescriptor input_;  // The pipe's write end or the file input_path, whose offset the child shares.
  FileDescriptor output_;
  FileDescriptor log_;
  MemoryKills kills_before_;
  bool killed_ = false;  // True if this object has sent SIGKILL.
  std::optional<ProcessExit> exit_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_SUBPROCESS_H_
