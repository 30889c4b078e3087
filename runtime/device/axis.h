// The sizes that an axis of a primitive's arrays may have. Pure; any thread.
#ifndef TETHYS_RUNTIME_DEVICE_AXIS_H_
#define TETHYS_RUNTIME_DEVICE_AXIS_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace tethys {

inline constexpr int64_t kMostAxis = int64_t{1} << 31;  // The product of two axes fits into an int64_t.

inline absl::Status CheckAxis(absl::string_view what, int64_t size) {
  if (size >= 1 && size <= kMostAxis) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", size, " is not in [1, ", kMostAxis, "]"));
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_AXIS_H_
