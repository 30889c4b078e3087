// Programs on other machines that are spoken to in lines: a shell, or tethys itself, at the far end of an ssh
// that lives as long as this. Called by the verb `hosts`. Each question is a line; an answer is any number of
// lines that begin with "tethys-check ", up to the line "tethys-check end". Other lines are passed over:
// start-up files of a shell may write, too.
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
  absl::Status status = {};  // Not OK: the conversation is over, for this reason.
  std::vector<std::string> lines = {};
  Nanoseconds asked = 0;  // Since 1970, by the clock of this machine.
  Nanoseconds heard = 0;
};

// Its destruction ends the program at the other end.
class Conversation {
 public:
  // `command` is for sh, after `ssh` of SshCall, or on this machine where that is empty. `input` is what it
  // finds first on its standard input. `error_path` is a file of its own for what it has to complain about.
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

// Asks all of them at once, questions[i] of conversations[i]; an empty question, or no conversation, is left
// out. Unavailable, Aborted: as in ssh.h. DeadlineExceeded.
std::vector<Answer> AskAll(const std::vector<std::unique_ptr<Conversation>>& conversations,
                           const std::vector<std::string>& questions, Nanoseconds deadline);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_CONVERSATION_H_
