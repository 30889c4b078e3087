// What the verbs chief, worker and ps share: a role process takes the job's token over standard input and
// lives no longer than that stays open. Where no launcher holds standard input, a file has that line
// (--token_file), and the process ends by itself.
//
//   first line of standard input: the secret of runtime/cluster/job_secret.h, never on a command line
//   then nothing, and its end (the launcher died, or the connection to its host did) ends the process at once
#ifndef TETHYS_DEPLOY_COMMAND_ROLE_PROCESS_H_
#define TETHYS_DEPLOY_COMMAND_ROLE_PROCESS_H_

#include <functional>
#include <string>

#include "deploy/command/flags.h"
#include "proto/chief.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

// Reads the first line of `fd`, and not a byte more. Blocks until it is there.
absl::StatusOr<JobSecret> ReadSecret(int fd);

// The same from a file. PermissionDenied: others than its owner may read it.
absl::StatusOr<JobSecret> ReadSecretFile(const std::string& path);

using RoleFunction = std::function<absl::Status(const JobSecret&)>;

// Takes the secret from --token_file, or from standard input, which then binds the process to its launcher;
// runs `role` and returns the exit status. The last line on standard error says why `role` failed. `name` is
// how `ps` and `top` show the process.
int RunRole(const Flags& flags, const std::string& verb, const std::string& name, const RoleFunction& role);
// --token_file, for the verbs that take it.
FlagSpec TokenFileFlag();
// --cuda_library_path, for those that are or start workers.
FlagSpec HostFlag();
FlagSpec CudaLibraryPathFlag();

// The verbs worker and ps, which take the same flags.
CommandSpec TaskCommandSpec(const std::string& verb, const std::string& summary,
                            const std::string& description);
struct TaskOptions;
int RunTask(const Flags& flags, const std::string& verb, proto::Role role,
            absl::Status (*run)(const TaskOptions& options));

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_ROLE_PROCESS_H_
