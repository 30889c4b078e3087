// The check of float32 values that come from files: samples must be finite. Pure; any thread.
#ifndef TETHYS_RUNTIME_DATA_FINITE_VALUES_H_
#define TETHYS_RUNTIME_DATA_FINITE_VALUES_H_

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys {

// InvalidArgument: a value is infinite or not a number. `name` returns the sample's name for the error:
// "train.npy, sample 3".
inline absl::Status CheckFinite(absl::Span<const float> values, absl::FunctionRef<std::string()> name) {
  // x - x is 0 for a finite x and NaN otherwise, so the loop needs no branch.
  float sum = 0;
  for (const float value : values) sum += value - value;
  if (sum == 0) return absl::OkStatus();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": value ", i, " is ", values[i], ": the values of samples must be finite"));
  }
  return absl::OkStatus();
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_FINITE_VALUES_H_
