// Checks of numbers in a saved state, which comes from a file. Every number is checked before it is used.
// Pure; thread-compatible.
#ifndef TETHYS_RUNTIME_BASE_STATE_CHECK_H_
#define TETHYS_RUNTIME_BASE_STATE_CHECK_H_

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// Keeps the error of the first check that fails.
//
//   StateCheck check;
//   check.Count("step", state.step());
//   check.That(state.worker() < workers, "there is no worker ", state.worker());
//   return check.status();
class StateCheck {
 public:
  // The largest accepted count: sums of a few such counts do not overflow.
  static constexpr int64_t kMostCount = int64_t{1} << 50;
  // The latest possible time: 36 years after the machine booted.
  static constexpr Nanoseconds kLatest = kMostCount << 10;

  // If `holds` is false, the check fails with InvalidArgument and the message `words`.
  template <typename... Words>
  void That(bool holds, const Words&... words) {
    if (!holds && status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(words...));
  }
  void Within(absl::string_view name, int64_t value, int64_t least, int64_t most) {
    That(value >= least && value <= most, name, " is ", value, ", not within [", least, ", ", most, "]");
  }
  // Checks a count, a step, a position, or a duration in nanoseconds (at most 13 days).
  void Count(absl::string_view name, int64_t value) { Within(name, value, 0, kMostCount); }
  // Checks a sum over all steps of a run, such as a sum of bytes or nanoseconds.
  void Sum(absl::string_view name, int64_t value) { Within(name, value, 0, kLatest); }
  void Finite(absl::string_view name, double value) {
    That(std::isfinite(value), name, " is ", value, ", which is not finite");
  }
  void Time(absl::string_view name, Nanoseconds value) { Within(name, value, 0, kLatest); }
  // Checks the number of an absl::StatusCode.
  void StatusCode(absl::string_view name, int code) {
    Within(name, code, 0, static_cast<int>(absl::StatusCode::kUnauthenticated));
  }
  void And(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_STATE_CHECK_H_
