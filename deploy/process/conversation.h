// Line-based dialogues with a shell or with tethys, at the far end of an ssh process or on this machine. The
// process lives until the Conversation ends or fails. Used by deploy/hosts. Each question is a line. An
// answer is at most 1000 lines that begin with "tethys-check ", up to the line "tethys-check end". Other
// lines are ignored. So is all output before the output of the command: a shell's start-up files may write
// such output (remote_shell.h).
//
// AskAll blocks up to its deadline; SIGPIPE must be ignored. Thread-compatible; no threads are started.
#ifndef TETHYS_DEPLOY_PROCESS_CONVERSATION_H_
#define TETHYS_DEPLOY_PROCESS_CONVERSATION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "deploy/process/line_reader.h"
#include "deploy/process/subprocess.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

struct Answer {
  absl::Status status = {};  // If not OK, the reason why the conversation is over.
  std::vector<std::string> lines = {};
  Nanoseconds asked = 0;  // The time when the question was sent: since 1970, by the clock of this machine.
  Nanoseconds heard = 0;  // The time when the answer was complete, by the same clock.
};

// The destructor ends the program at the other end.
class Conversation {
 public:
  // Runs `command` by sh. `ssh` is a result of SshCall; if it is empty, the command runs on this machine.
  // `input` is the first text on the command's standard input. `error_path` is a file for its standard error;
  // the destructor removes that file.
  Conversation(const std::vector<std::string>& ssh, const std::string& command, const std::string& input,
               const std::string& error_path);
  ~Conversation();

 private:
  friend std::vector<Answer> AskAll(const std::vector<std::unique_ptr<Conversation>>& conversations,
                                    const std::vector<std::string>& questions, Nanoseconds deadline);
  void Ask(const std::string& question);
  void Listen();
  void GiveUp(const absl::Status& status);

  const std::string error_path_;
  std::optional<Subprocess> process_;
  LineReader reader_;
  bool answering_ = false;
  Answer answer_;
};

// Sends questions[i] to conversations[i], all at once; an empty question or a null conversation is skipped.
// Errors in Answer::status: Unavailable and Aborted as in RemoteResult (ssh.h); DeadlineExceeded if there is
// no answer within `deadline`; Cancelled if an interrupt arrives that an InterruptsHeld of the caller keeps
// pending (signal_source.h).
std::vector<Answer> AskAll(const std::vector<std::unique_ptr<Conversation>>& conversations,
                           const std::vector<std::string>& questions, Nanoseconds deadline);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_CONVERSATION_H_
