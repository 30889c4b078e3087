// A stand-in for the chief, used if a scheduler has started the tasks of a job but the job cannot begin. The
// stand-in tells the reason to workers and servers on other machines. Without it, these tasks would try to
// connect until timeouts.start has passed.
#ifndef TETHYS_RUNTIME_CHIEF_REFUSAL_H_
#define TETHYS_RUNTIME_CHIEF_REFUSAL_H_

#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

struct Refusal {
  std::string listen;  // host:port of the chief.
  JobSecret secret;
  std::string reason;
  int tasks = 0;            // The number of workers and servers to be refused.
  Nanoseconds timeout = 0;  // The time in which these tasks must connect.
};

// Listens in the chief's place and refuses every session with FailedPrecondition and the reason. Blocks until
// all tasks have been refused. DeadlineExceeded: some tasks did not connect. AlreadyExists: the port is in
// use.
absl::Status RefuseTasks(const Refusal& refusal, const Clock& clock);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_REFUSAL_H_
