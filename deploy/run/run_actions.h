// The actions of `tethys runs` on one run, given the path of its directory. Each action prints its results or
// its error and returns the exit status of the process. Blocking.
#ifndef TETHYS_DEPLOY_RUN_RUN_ACTIONS_H_
#define TETHYS_DEPLOY_RUN_RUN_ACTIONS_H_

#include <string>

#include "runtime/base/clock.h"

namespace tethys {

int ShowRun(const std::string& path);

// Asks the run's launcher to end the run, waits until the launcher has ended, at most `limit`, and prints how
// the run ended.
int StopRun(const std::string& path, Nanoseconds limit);

// Prints the logs of all processes of the run, merged into one. With `follow`, also prints the lines that are
// added until the run ends.
int ShowRunLogs(const std::string& path, bool follow);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_RUN_ACTIONS_H_
