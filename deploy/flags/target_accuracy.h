// The flag --target_accuracy, which compare and report take. Pure; any thread.
#ifndef TETHYS_DEPLOY_FLAGS_TARGET_ACCURACY_H_
#define TETHYS_DEPLOY_FLAGS_TARGET_ACCURACY_H_

#include "absl/types/optional.h"
#include "deploy/flags/flags.h"
#include "runtime/base/status.h"

namespace tethys {

FlagSpec TargetAccuracyFlag();

// The flag's value; nullopt if the flag was not given. InvalidArgument: the value is not in (0, 1].
absl::StatusOr<absl::optional<double>> GivenTarget(const Flags& flags);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_TARGET_ACCURACY_H_
