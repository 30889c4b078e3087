#include "deploy/command/verbs.h"
#include "deploy/run/role_process.h"
#include "workers/worker_process.h"

namespace tethys {

Command WorkerCommand() {
  return {TaskCommandSpec(
              "worker", "Runs one worker of a job; started by launchers.",
              "Runs one worker: it joins the chief, reads the data, trains and evaluates as the chief says."),
          [](const Flags& flags) { return RunTask(flags, "worker", proto::WORKER, RunWorker); }};
}

}  // namespace tethys
