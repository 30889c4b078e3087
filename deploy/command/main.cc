// The `tethys` command: chooses the verb and parses its flags. One binary contains every role, so that all
// processes of a job can be of the same version.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "deploy/command/verbs.h"
#include "deploy/command/version.h"
#include "deploy/flags/data_secrets.h"
#include "deploy/flags/piped_files.h"
#include "runtime/base/process.h"

namespace tethys {

std::vector<Command> AllCommands() {
  return {InitCommand(),   TrainCommand(),  CompareCommand(), EvaluateCommand(),   PredictCommand(),
          ExportCommand(), ImportCommand(), PlanCommand(),    DataCommand(),       JobCommand(),
          ReportCommand(), RunsCommand(),   ScaleCommand(),   SweepCommand(),      CalibrateCommand(),
          AdviseCommand(), StudyCommand(),  WatchCommand(),   HostsCommand(),      ManifestCommand(),
          TokenCommand(),  ChiefCommand(),  WorkerCommand(),  ServerCommand(),     LinkCommand(),
          MeterCommand(),  AgentCommand(),  ReadyCommand(),   CompletionCommand(), HelpCommand()};
}

std::vector<CommandSpec> AllSpecs() {
  std::vector<CommandSpec> specs;
  for (const Command& command : AllCommands()) specs.push_back(command.spec);
  return specs;
}

namespace {

// Opens descriptors 0 to 2 if the caller closed them. Otherwise files and pipes would get these numbers.
void OpenStandardDescriptors() {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
}

bool AsksForHelp(const std::string& word) { return word == "--help" || word == "-h"; }

bool AsksForVersion(const std::string& word) {
  return word == "--version" || word == "-v" || word == "-V" || word == "version";
}

// Lets the kernel send SIGTERM, which ends a run like Ctrl-C, when the process `pid`, which started this one,
// ends. `pid` is text of the command line.
absl::Status EndWithParent(absl::string_view pid) {
  pid_t parent;
  if (!absl::SimpleAtoi(pid, &parent)) {
    return absl::InvalidArgumentError(absl::StrCat("--parent=", pid, ": write the number of a process"));
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // If the parent ended before the line above, the kernel sends no signal.
  if (getppid() == parent) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--parent=", pid, ": this process was not started by process ", pid, ", or that process has ended"));
}

int Main(std::vector<std::string> words) {
  const std::vector<Command> commands = AllCommands();
  absl::string_view parent;
  if (!words.empty()) parent = words[0];
  if (absl::ConsumePrefix(&parent, "--parent=")) {
    if (const absl::Status follows = EndWithParent(parent); !follows.ok()) {
      std::fprintf(stderr, "tethys: %s\n", std::string(follows.message()).c_str());
      return kExitBadRequest;
    }
    words.erase(words.begin());
  }
  if (words.empty() || AsksForHelp(words[0])) {
    PrintHelp();
    return words.empty() ? kExitBadRequest : kExitSuccess;
  }
  if (AsksForVersion(words[0])) {
    std::printf("%s\n", VersionText().c_str());
    return kExitSuccess;
  }
  if (words[0] == "__complete") return PrintCompletedWords({words.begin() + 1, words.end()});
  const auto command = std::find_if(commands.begin(), commands.end(), [&](const Command& candidate) {
    return candidate.spec.verb == words[0];
  });
  if (command == commands.end()) return RefuseVerb(words[0]);
  if (std::any_of(words.begin() + 1, words.end(), AsksForHelp)) {
    std::fputs(HelpText(command->spec).c_str(), stdout);
    return kExitSuccess;
  }
  absl::StatusOr<Flags> flags = ParseFlags(command->spec, {words.data() + 1, words.size() - 1});
  if (!flags.ok()) return Fail(words[0], flags.status(), kExitBadRequest);
  const absl::Status kept = KeepPipedFiles(command->spec, *flags);
  if (!kept.ok()) return Fail(words[0], kept, kExitBadRequest);
  UseSecretsOf(*flags);
  return command->run(*flags);
}

}  // namespace

}  // namespace tethys

int main(int argc, char** argv) {
  tethys::OpenStandardDescriptors();
  tethys::RaiseDescriptorLimit();  // A job needs a descriptor for each process, connection and stream.
  tethys::EndProcess(tethys::Main(std::vector<std::string>(argv + 1, argv + std::max(argc, 1))));
}
