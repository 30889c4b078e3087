// The common part of the verbs chief, worker and ps: a role process reads the job's token from standard input
// and ends when that is closed. Without a launcher that holds standard input, a file has the token
// (--token_file), and the process ends by itself.
//
//   first line of standard input: the secret of runtime/cluster/job_secret.h, never on a command line
//   end of file (the launcher or the connection to its host died) ends the process at once
#ifndef TETHYS_DEPLOY_COMMAND_ROLE_PROCESS_H_
#define TETHYS_DEPLOY_COMMAND_ROLE_PROCESS_H_

#include <functional>
#include <string>

#include "deploy/command/flags.h"
#include "proto/member.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

// Reads the first line of `fd`, and not a byte more. Blocks until the line is complete.
absl::StatusOr<JobSecret> ReadSecret(int fd);

// The same from a file. PermissionDenied: others than its owner may read it.
absl::StatusOr<JobSecret> ReadSecretFile(const std::string& path);

using RoleFunction = std::function<absl::Status(const JobSecret&)>;

// Reads the secret from --token_file, or from standard input, whose end then ends the process; runs `role`
// and returns the exit status. The last line on standard error says why `role` failed. `ps` and `top` show
// the process as tethys-`name`. `caller` is for a process whose standard error is shared ("worker 1 on
// node2"): its last line begins with "tethys CALLER: ".
int RunRole(const Flags& flags, const std::string& verb, const std::string& name, const RoleFunction& role,
            const std::string& caller = "");
// --token_file, for the verbs that take it.
FlagSpec TokenFileFlag();
// --host, the name of this machine in messages and results.
FlagSpec HostFlag();
// --cuda_library_path, for verbs that are or start workers.
FlagSpec CudaLibraryPathFlag();

// The spec and the function of the verbs worker and ps, which take the same flags.
CommandSpec TaskCommandSpec(const std::string& verb, const std::string& summary,
                            const std::string& description);
struct TaskOptions;
int RunTask(const Flags& flags, const std::string& verb, proto::Role role,
            absl::Status (*run)(const TaskOptions& options));

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_ROLE_PROCESS_H_
