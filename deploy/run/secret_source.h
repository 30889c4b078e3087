// Where a process of a job gets the job's secret (runtime/cluster/job_secret.h): standard input, a file, or
// the environment. Errors never quote the secret.
#ifndef TETHYS_DEPLOY_RUN_SECRET_SOURCE_H_
#define TETHYS_DEPLOY_RUN_SECRET_SOURCE_H_

#include <string>

#include "deploy/flags/flags.h"
#include "runtime/base/status.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

// The environment variable with the line TOKEN JOB_ID, for processes that a scheduler starts.
inline constexpr char kTokenVariable[] = "TETHYS_TOKEN";

// Reads the secret from the first line of `fd`, and no byte after that line. Blocks until the line is
// complete.
absl::StatusOr<JobSecret> ReadSecret(int fd);

// Reads the secret from a file. PermissionDenied: users other than its owner may access the file
// (private_file.h).
absl::StatusOr<JobSecret> ReadSecretFile(const std::string& path);

// The secret of a process that a scheduler has started: from the file of --token_file or, without this flag,
// from the environment. Removes the variable from the environment, so that no child process inherits it; call
// it before the process has other threads. InvalidArgument: there is neither, or the line has another form.
absl::StatusOr<JobSecret> TakeScheduledSecret(const Flags& flags);

// A line TOKEN JOB_ID for a new run. The token is random, and JOB_ID is `name`, a hyphen and random digits.
// InvalidArgument: the name is no word of letters, digits, hyphens, points and underscores.
absl::StatusOr<std::string> NewSecretLine(const std::string& name);

// The flag --token_file, for the verbs that take it.
FlagSpec TokenFileFlag();

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_SECRET_SOURCE_H_
