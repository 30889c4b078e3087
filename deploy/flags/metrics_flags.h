// The flags by which a live view serves its metrics to other machines, for the verbs `watch` and `train`.
// Blocking on a local file; any thread.
#ifndef TETHYS_DEPLOY_FLAGS_METRICS_FLAGS_H_
#define TETHYS_DEPLOY_FLAGS_METRICS_FLAGS_H_

#include <string>
#include <vector>

#include "deploy/flags/flags.h"
#include "deploy/live/live_server.h"
#include "runtime/base/status.h"

namespace tethys {

// Returns `flags` with the flags metrics_address and metrics_token_file added.
std::vector<FlagSpec> WithMetricsFlags(std::vector<FlagSpec> flags);

// Sets metrics_address and metrics_token of `options`. InvalidArgument: the address is malformed, or only one
// of the two flags is given. Otherwise fails as ReadMetricsToken does.
absl::Status ReadMetricsFlags(const Flags& flags, LiveServerOptions& options);

// The flags for metrics in `flags`, as arguments of a `tethys watch` that this command starts; empty if the
// flags for metrics are not given.
std::vector<std::string> MetricsArguments(const Flags& flags);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_METRICS_FLAGS_H_
