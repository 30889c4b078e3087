#include "deploy/command/verbs.h"
#include "deploy/run/role_process.h"
#include "ps/server_process.h"

namespace tethys {

Command ServerCommand() {
  return {TaskCommandSpec(
              "ps", "Runs one parameter server of a job; started by launchers.",
              "Runs one parameter server: it joins the chief, keeps its shards of the parameters, applies "
              "what workers push and answers with new parameters."),
          [](const Flags& flags) { return RunTask(flags, "ps", proto::PS, RunParameterServer); }};
}

}  // namespace tethys
