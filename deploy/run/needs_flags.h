// The flags of `tethys ready`: the needs of a job on one machine. Pure; any thread.
#ifndef TETHYS_DEPLOY_RUN_NEEDS_FLAGS_H_
#define TETHYS_DEPLOY_RUN_NEEDS_FLAGS_H_

#include <vector>

#include "deploy/flags/flags.h"
#include "deploy/hosts/host_needs.h"
#include "runtime/base/status.h"

namespace tethys {

std::vector<FlagSpec> NeedsFlagSpecs();

// The inverse of NeedsArguments. InvalidArgument names the flag whose value cannot be parsed.
absl::StatusOr<HostNeeds> ParseNeeds(const Flags& flags);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_NEEDS_FLAGS_H_
