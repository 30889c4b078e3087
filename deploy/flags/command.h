// A verb (subcommand) as the program needs it: its flags and the function that runs it. main.cc calls
// Command::run, which returns the exit status of the process.
#ifndef TETHYS_DEPLOY_FLAGS_COMMAND_H_
#define TETHYS_DEPLOY_FLAGS_COMMAND_H_

#include <string>

#include "deploy/flags/flags.h"
#include "deploy/process/exit_status.h"
#include "runtime/base/status.h"

namespace tethys {

struct Command {
  CommandSpec spec;
  int (*run)(const Flags& flags);
};

// Flushes standard output, prints "tethys VERB: MESSAGE" on standard error, and returns `exit_status`.
int Fail(const std::string& verb, const absl::Status& status, int exit_status);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_COMMAND_H_
