// Completion of command lines in shells: the words that may stand at the cursor, from the verbs' own table.
// `tethys completion SHELL` prints a script that asks the hidden verb `__complete` for these words. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_FLAGS_COMPLETION_H_
#define TETHYS_DEPLOY_FLAGS_COMPLETION_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "deploy/flags/flags.h"
#include "runtime/base/status.h"

namespace tethys {

// Candidates that do not follow from the table.
struct CompletionSources {
  // The names of the runs in a folder.
  std::function<std::vector<std::string>(const std::string& folder)> runs;
  // Beginnings of FIELD=VALUE (field_candidates.h).
  std::function<std::vector<std::string>(absl::string_view text)> fields;
};

// `words` are the words of the command line, from the program's name on, and words[cursor] is the word to
// complete; it is empty if `cursor` is behind the last word. bash makes words of its own of each "=", so
// `--set`, `=`, `a` counts as one word. Returns whole words. Returns nothing where a file is expected: shells
// then complete paths.
std::vector<std::string> CompletedWords(absl::Span<const CommandSpec> specs,
                                        absl::Span<const std::string> words, size_t cursor,
                                        const CompletionSources& sources);

// The shells that have a script, "bash|zsh|fish".
extern const char kCompletionShells[];
// The script for a shell. InvalidArgument: there is none.
absl::StatusOr<std::string> CompletionScript(absl::string_view shell);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_COMPLETION_H_
