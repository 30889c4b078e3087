#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "deploy/command/verbs.h"
#include "deploy/command/version.h"
#include "deploy/flags/manual_page.h"
#include "runtime/base/nearest_name.h"

namespace tethys {
namespace {

constexpr char kSummary[] =
    "trains models on a cluster, with parameter servers or with mirrored workers, and measures which does "
    "better";

int Help(const Flags& flags) {
  const std::vector<CommandSpec> specs = AllSpecs();
  const bool man = flags.Has("man");
  if (flags.arguments().empty()) {
    if (man) {
      std::fputs(CommandPage(specs, kSummary, ShortVersionText()).c_str(), stdout);
    } else {
      PrintHelp();
    }
    return kExitSuccess;
  }
  const std::string& verb = flags.arguments()[0];
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const CommandSpec& spec) { return spec.verb == verb; });
  if (found == specs.end()) return RefuseVerb(verb);
  std::fputs((man ? VerbPage(*found, ShortVersionText()) : HelpText(*found)).c_str(), stdout);
  return kExitSuccess;
}

}  // namespace

void PrintHelp() {
  std::printf("Tethys %s.\n\nusage: tethys VERB [ARGUMENT ...] [--FLAG=VALUE ...]\n\n", kSummary);
  for (const CommandSpec& spec : AllSpecs()) {
    if (!spec.hidden) std::printf("  %-10s  %s\n", spec.verb.c_str(), spec.summary.c_str());
  }
  std::printf(
      "\ntethys VERB --help describes a verb; tethys --version names version, commit and build.\n"
      "tethys --parent=PID VERB ... is for programs that start tethys: a run ends, as by Ctrl-C, when its "
      "caller, process PID, ends.\n\nexample:\n"
      "  tethys compare examples/fashion_mnist_*.textproto --repeats=3\n");
}

int RefuseVerb(const std::string& word) {
  std::vector<std::string> verbs;
  for (const CommandSpec& spec : AllSpecs()) verbs.push_back(spec.verb);
  const std::string nearest = NearestName(word, verbs);
  std::fprintf(stderr, "tethys: there is no verb '%s'%s (tethys --help lists them)\n", word.c_str(),
               nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?").c_str());
  return kExitBadRequest;
}

Command HelpCommand() {
  return {{.verb = "help",
           .summary = "Describes a verb, or prints a manual page.",
           .description =
               "Without VERB, lists all verbs. With --man, prints a manual page in troff, which `man -l -` "
               "shows: tethys(1), or the page of VERB, tethys-VERB(1).",
           .argument = "VERB",
           .argument_optional = true,
           .flags = {{.name = "man", .help = "Prints a manual page."}},
           .examples = {"tethys help train", "tethys help --man train | man -l -",
                        "tethys help --man > /usr/local/share/man/man1/tethys.1"}},
          Help};
}

}  // namespace tethys
