// Conversions shared by the classes whose state is a part of proto::ChiefState. The message comes from a
// file, so every number is checked before it is used (state_check.h). Pure; any thread.
#ifndef TETHYS_RUNTIME_CHIEF_SAVED_VALUES_H_
#define TETHYS_RUNTIME_CHIEF_SAVED_VALUES_H_

#include <string>

#include "proto/chief_state.pb.h"
#include "runtime/base/state_check.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/data/sharding.h"

namespace tethys {

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
