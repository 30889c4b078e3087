#include "deploy/command/verbs.h"
#include "deploy/launcher/agent_process.h"
#include "deploy/process/own_program.h"

namespace tethys {

Command AgentCommand() {
  return {
      {.verb = "agent",
       .summary = "Runs the processes of a job on this machine; started by launchers over ssh.",
       .description =
           "Takes a launcher's orders on standard input and reports on standard output (proto/agent.proto): "
           "starts this machine's processes of one job, and kills these processes when the launcher is gone.",
       .flags = {{.name = "job_id",
                  .value = "ID",
                  .help = "The job's id, shown in this machine's list of processes."}},
       .examples = {"ssh slave1 tethys agent --job_id=ID < orders > reports"},
       .hidden = true},
      [](const Flags&) {
        const absl::Status status = RunAgent(OwnProgram());
        return status.ok() ? kExitSuccess : Fail("agent", status, kExitFailed);
      }};
}

}  // namespace tethys
