// The verbs (subcommands) of `tethys`, one source file each.
#ifndef TETHYS_DEPLOY_COMMAND_VERBS_H_
#define TETHYS_DEPLOY_COMMAND_VERBS_H_

#include <string>
#include <vector>

#include "deploy/flags/command.h"

namespace tethys {

// All verbs, in the order in which help lists them.
std::vector<Command> AllCommands();
std::vector<CommandSpec> AllSpecs();

Command TrainCommand();
Command CompareCommand();
Command DataCommand();
Command EvaluateCommand();
Command ExportCommand();
Command ImportCommand();
Command InitCommand();
Command JobCommand();
Command PlanCommand();
Command PredictCommand();
Command ReportCommand();
Command RunsCommand();
Command ScaleCommand();
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
Command ManifestCommand();
Command TokenCommand();
Command CompletionCommand();
Command HelpCommand();

// The hidden verb __complete INDEX WORD...: prints the words that may stand at words[INDEX], one a line. It
// is no Command, since its words may be flags of other verbs.
int PrintCompletedWords(const std::vector<std::string>& arguments);

// Prints the list of verbs.
void PrintHelp();
// Prints that there is no such verb, on standard error; returns the exit status.
int RefuseVerb(const std::string& word);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_VERBS_H_
