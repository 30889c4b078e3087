// Conversions and checks shared by the classes whose state is a part of proto::ChiefState. The message comes
// from a file, so every number is checked before it is used. Pure; any thread.
#ifndef TETHYS_RUNTIME_CHIEF_SAVED_VALUES_H_
#define TETHYS_RUNTIME_CHIEF_SAVED_VALUES_H_

#include <cstdint>
#include <string>

#include "proto/chief_state.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/data/sharding.h"

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
  void Time(absl::string_view name, Nanoseconds value) { Within(name, value, 0, kLatest); }
  void Status(absl::string_view name, const proto::SavedStatus& status) {
    Within(absl::StrCat(name, ".code"), status.code(), 0,
           static_cast<int>(absl::StatusCode::kUnauthenticated));
  }
  void And(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

inline void Put(const absl::Status& status, proto::SavedStatus& saved) {
  saved.set_code(static_cast<int>(status.code()));
  saved.set_message(std::string(status.message()));
}
inline absl::Status StatusOf(const proto::SavedStatus& saved) {
  return absl::Status(static_cast<absl::StatusCode>(saved.code()), saved.message());
}

inline void Put(TaskId task, proto::SavedTask& saved) {
  saved.set_role(task.role);
  saved.set_index(task.index);
}
inline TaskId TaskOf(const proto::SavedTask& saved) { return {saved.role(), saved.index()}; }

inline void Put(Slice slice, proto::SavedSlice& saved) {
  saved.set_begin(slice.begin);
  saved.set_end(slice.end);
}
inline Slice SliceOf(const proto::SavedSlice& saved) { return {saved.begin(), saved.end()}; }

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_SAVED_VALUES_H_
