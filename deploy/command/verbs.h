// The verbs (subcommands) of `tethys`, one source file each.
#ifndef TETHYS_DEPLOY_COMMAND_VERBS_H_
#define TETHYS_DEPLOY_COMMAND_VERBS_H_

#include "deploy/flags/command.h"

namespace tethys {

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

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_VERBS_H_
