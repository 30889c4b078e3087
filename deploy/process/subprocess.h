// Child processes of the launcher, and of its agents on other machines. A child is bound to its parent twice:
// its standard input is a pipe whose end tells it that the parent is gone, and the kernel kills it should it
// not listen.
//
// Spawn on the main thread: the kernel tells a child of its parent's death when the thread that started it
// ends. Between fork and exec the child makes system calls only, so other threads do no harm.
// Thread-compatible; nothing here waits for a child.
#ifndef TETHYS_DEPLOY_PROCESS_SUBPROCESS_H_
#define TETHYS_DEPLOY_PROCESS_SUBPROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

struct SpawnOptions {
  std::string program = {};                 // Looked for along PATH when it is a bare name.
  std::vector<std::string> arguments = {};  // Without the name it is called by.
  std::string name = "tethys";              // What it is called by.
  std::string input = {};                   // What the child finds on its standard input; at most 4 KiB.
  std::string input_path = {};              // Or it reads this file and then its end.
  std::string log_path = {};                // Standard error is appended to it.
  bool read_log = false;                    // Standard error comes back by log() instead.
  bool read_output =
      false;  // Standard output comes back by output(); else it goes where standard error does.
};

// How a process ended.
struct ProcessExit {
  int signal = 0;                // Not 0: it was killed by this signal.
  int code = 0;                  // Its exit status otherwise.
  bool connection_lost = false;  // It ran on another machine, and the connection to it broke.
  std::string reason = {};       // Why the connection broke, where that is known.
  bool clean() const { return signal == 0 && code == 0 && !connection_lost; }
  // Something befell it; it did not choose to end.
  bool abrupt() const { return signal != 0 || connection_lost; }
};
// "was killed by signal 9 (Killed)", "exited with status 1", "lost its ssh connection (REASON)".
std::string ExitText(const ProcessExit& exit);

// Invariants:
//  1. The child holds descriptors 0, 1 and 2 and no other, so nobody but the launcher holds the other end of
//  a
//     child's pipe and its close is seen.
//  2. The child is in a process group of its own: a Ctrl-C in the terminal reaches the launcher only.
//  3. A Subprocess that is destroyed leaves no process behind: it kills and reaps.
class Subprocess {
 public:
  // NotFound, PermissionDenied: the program cannot be executed; the log says nothing then.
  static absl::StatusOr<Subprocess> Spawn(const SpawnOptions& options);
  ~Subprocess();
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) = delete;

  pid_t pid() const { return pid_; }
  // The read end of standard output, non-blocking; -1 without read_output.
  int output() const { return output_.get(); }
  // The same of standard error; -1 without read_log.
  int log() const { return log_.get(); }
  // The write end of standard input; -1 once it was closed.
  int input() const { return input_.get(); }

  // How far it has read the file of input_path, in bytes; 0 without one.
  int64_t input_offset() const;

  // To its standard input, at most PIPE_BUF bytes; false when it cannot take them. Requires SIGPIPE to be
  // ignored.
  bool Say(const std::string& text);
  // Ends its standard input.
  void CloseInput() { input_.Close(); }

  // Reaps it if it has ended. Never blocks.
  const std::optional<ProcessExit>& Poll();
  const std::optional<ProcessExit>& exit() const { return exit_; }

  // To its process group, and wakes it if it is stopped. Nothing happens once it has been reaped.
  void Signal(int signal);

 private:
  Subprocess() = default;

  pid_t pid_ = -1;
  FileDescriptor input_;  // The pipe's write end; with input_path the file, whose offset the child shares.
  FileDescriptor output_;
  FileDescriptor log_;
  std::optional<ProcessExit> exit_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_SUBPROCESS_H_
