// Reading environment variables that schedulers set, for the files beside this one. Pure; any thread.
#ifndef TETHYS_DEPLOY_SCHEDULERS_VARIABLES_H_
#define TETHYS_DEPLOY_SCHEDULERS_VARIABLES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "deploy/schedulers/scheduler_environment.h"

namespace tethys {

// The error "VARIABLE: PROBLEM".
absl::Status BadVariable(absl::string_view variable, absl::string_view problem);

// The value of a variable. InvalidArgument: the variable is not set or empty; `remedy` says what to do.
absl::StatusOr<std::string> VariableText(const Environment& environment, const std::string& variable,
                                         absl::string_view remedy);
// The value of a variable that counts processes or numbers them from 0.
absl::StatusOr<int> VariableNumber(const Environment& environment, const std::string& variable,
                                   absl::string_view remedy);

// Processes in words: "a chief, 2 servers and 3 workers"; without `chief`, "2 servers and 3 workers".
std::string ProcessesText(bool chief, int servers, int workers);

// The task of process `number` where process 0 is the chief, the next ones are the servers, and the others
// are workers. Sets role, index, workers, servers and starts_chief.
ScheduledTask TaskByNumber(int number, int workers, int servers);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SCHEDULERS_VARIABLES_H_
