#include "deploy/flags/completion.h"

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "deploy/command/verbs.h"
#include "runtime/base/file.h"
#include "runtime/job/field_candidates.h"

namespace tethys {
namespace {

std::vector<std::string> RunNames(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& name : ListDirectory(folder).value_or(std::vector<std::string>())) {
    if (FileExists(absl::StrCat(folder, "/", name, "/job.textproto"))) names.push_back(name);
  }
  return names;
}

int Completion(const Flags& flags) {
  const absl::StatusOr<std::string> script = CompletionScript(flags.arguments()[0]);
  if (!script.ok()) return Fail("completion", script.status(), kExitBadRequest);
  std::fputs(script->c_str(), stdout);
  return kExitSuccess;
}

}  // namespace

int PrintCompletedWords(const std::vector<std::string>& arguments) {
  size_t cursor = 0;
  if (arguments.empty() || !absl::SimpleAtoi(arguments[0], &cursor)) return kExitBadRequest;
  const CompletionSources sources = {.runs = RunNames, .fields = FieldCandidates};
  for (const std::string& word :
       CompletedWords(AllSpecs(), {arguments.data() + 1, arguments.size() - 1}, cursor, sources)) {
    std::printf("%s\n", word.c_str());
  }
  return kExitSuccess;
}

Command CompletionCommand() {
  return {
      {.verb = "completion",
       .summary = "Prints a script by which a shell completes commands.",
       .description =
           "The shell then completes verbs, flags, their values, names of runs, files, and fields of the job "
           "after --set= and --vary=. The script asks this program, so it stays right when the program is "
           "replaced.",
       .argument = kCompletionShells,
       .examples = {"source <(tethys completion bash)",
                    "tethys completion zsh > /usr/local/share/zsh/site-functions/_tethys",
                    "tethys completion fish > ~/.config/fish/completions/tethys.fish"}},
      Completion};
}

}  // namespace tethys
