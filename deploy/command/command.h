// The verbs (subcommands) of the `tethys` command, one source file each. main.cc calls the verb's function,
// Command::run, which returns the exit status of the process.
#ifndef TETHYS_DEPLOY_COMMAND_COMMAND_H_
#define TETHYS_DEPLOY_COMMAND_COMMAND_H_

#include <string>

#include "deploy/command/flags.h"
#include "deploy/process/exit_status.h"
#include "runtime/base/status.h"

namespace tethys {

struct Command {
  CommandSpec spec;
  int (*run)(const Flags& flags);
};

Command TrainCommand();
Command CompareCommand();
Command DataCommand();
Command EvaluateCommand();
Command ExportCommand();
Command ImportCommand();
Command PlanCommand();
Command PredictCommand();
Command ReportCommand();
Command RunsCommand();
Command SweepCommand();
Command CalibrateCommand();
Command AdviseCommand();
Command StudyCommand();
Command WatchCommand();
Command HostsCommand();
Command ChiefCommand();
Command WorkerCommand();
Command ServerCommand();
Command LinkCommand();
Command MeterCommand();
Command ReadyCommand();
Command AgentCommand();

// Flushes standard output, prints "tethys VERB: MESSAGE" on standard error, and returns `exit_status`.
int Fail(const std::string& verb, const absl::Status& status, int exit_status);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_COMMAND_H_
