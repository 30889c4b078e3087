// Scripts for sh on another machine, where ssh hands every command to the user's login shell: bash, csh,
// tcsh, fish, zsh, ... The login shell parses the text first, and its start-up files may print text of any
// form before the script's output. Used by every caller of ssh. Pure; thread-compatible.
#ifndef TETHYS_DEPLOY_PROCESS_REMOTE_SHELL_H_
#define TETHYS_DEPLOY_PROCESS_REMOTE_SHELL_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace tethys {

// Quotes `word` so that a POSIX shell reads it unchanged.
std::string ShellQuote(const std::string& word);

// Returns `word`, quoted only if a shell would change it otherwise. For commands that people copy.
std::string ShellWord(const std::string& word);

// A command that runs `script` by sh. All login shells parse the command alike, because it is one line; its
// words in single quotes contain no quotes, no '!' and no backslash before the closing quote; and no word is
// longer than csh accepts. `script` must not contain a zero byte.
std::string ShellCall(const std::string& script);

// Like ShellCall, but the script's output begins with kOutputMark.
std::string MarkedShellCall(const std::string& script);

// The mark contains line ends, and the text of a command by ShellCall contains none. So a shell that prints
// its commands never prints the mark.
inline constexpr char kOutputMark[] = "\ntethys-output-begins\n";

// Drops the bytes of a stream up to and including the first `mark`; drops nothing if `mark` is empty.
class MarkSkipper {
 public:
  explicit MarkSkipper(std::string mark = "") : mark_(std::move(mark)), found_(mark_.empty()) {}

  // Takes the next bytes of the stream; returns the part of `bytes` that comes after the mark.
  absl::string_view Skip(absl::string_view bytes);
  bool found() const { return found_; }

 private:
  std::string mark_;
  bool found_;
  std::string tail_;  // The last bytes seen, which may be the beginning of the mark.
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_REMOTE_SHELL_H_
