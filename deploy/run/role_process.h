// The common part of the verbs chief, worker and ps, each of which runs one process of a job. The process
// reads the job's secret from standard input, which a launcher holds open, and ends when standard input is
// closed. Without a launcher, it reads the secret from a file (--token_file) and ends when its work is done.
//
//   first line of standard input: the secret (runtime/cluster/job_secret.h), which is never on a command line
//   end of file: the launcher has ended or the connection to it is lost; the process ends at once
#ifndef TETHYS_DEPLOY_RUN_ROLE_PROCESS_H_
#define TETHYS_DEPLOY_RUN_ROLE_PROCESS_H_

#include <functional>
#include <string>

#include "deploy/flags/flags.h"
#include "proto/member.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

using RoleFunction = std::function<absl::Status(const JobSecret&)>;

struct RoleCall {
  std::string verb;  // "chief", "worker" or "ps".
  std::string name;  // `ps` and `top` show the process as tethys-NAME.
  // Such as "worker 1 on node2", if several processes share standard error. The last line there then begins
  // with "tethys CALLER: ".
  std::string caller = {};
  bool has_launcher = false;  // True: the process ends when standard input is closed.
};

// Runs `role` and returns the exit status. The last line on standard error says why `role` failed.
int RunRoleWithSecret(const JobSecret& secret, const RoleCall& call, const RoleFunction& role);

// Reads the secret from --token_file or else from standard input (whose end then ends the process), and runs
// `role` with it.
int RunRole(const Flags& flags, const std::string& verb, const std::string& name, const RoleFunction& role);
// The flag --host: the name of this machine in messages and results.
FlagSpec HostFlag();
// The flag --cuda_library_path, for verbs that run or start workers.
FlagSpec CudaLibraryPathFlag();

// The spec and the function of the verbs worker and ps, which take the same flags.
CommandSpec TaskCommandSpec(const std::string& verb, const std::string& summary,
                            const std::string& description);
struct TaskOptions;
int RunTask(const Flags& flags, const std::string& verb, proto::Role role,
            absl::Status (*run)(const TaskOptions& options));

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_ROLE_PROCESS_H_
