#include "runtime/cluster/failure_kind.h"

namespace tethys {

bool MayBefallOneProcess(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsDataLoss(status) || absl::IsInternal(status) ||
         absl::IsUnknown(status);
}

}  // namespace tethys
