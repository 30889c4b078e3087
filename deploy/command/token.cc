#include <cstdio>

#include "deploy/command/verbs.h"
#include "deploy/run/secret_source.h"

namespace tethys {
namespace {

int Token(const Flags& flags) {
  const absl::StatusOr<std::string> line =
      NewSecretLine(flags.arguments().empty() ? "run" : flags.arguments()[0]);
  if (!line.ok()) return Fail("token", line.status(), kExitBadRequest);
  std::printf("%s\n", line->c_str());
  return kExitSuccess;
}

}  // namespace

Command TokenCommand() {
  return {
      {.verb = "token",
       .summary = "Prints a new token, for jobs whose processes a scheduler starts.",
       .description =
           "Prints the line TOKEN JOB_ID: 32 random hexadecimal digits, by which the processes of one run "
           "recognise one another, and NAME with random digits. All processes of a run get the same line, "
           "in a file that only its owner may read (--token_file) or in the environment variable "
           "TETHYS_TOKEN; each run needs a line of its own (docs/guide/schedulers.md).",
       .argument = "NAME",
       .argument_optional = true,
       .examples = {"(umask 077; tethys token > job.token)", "tethys token slurm-$SLURM_JOB_ID"}},
      Token};
}

}  // namespace tethys
