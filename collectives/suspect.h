// The member of a group that an error of a communicator blames: the peer that is lost, or that was awaited
// for too long. An error that a peer has passed on blames no member. The name is stored as a payload of the
// status, and Annotate keeps it.
#ifndef TETHYS_COLLECTIVES_SUSPECT_H_
#define TETHYS_COLLECTIVES_SUSPECT_H_

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

inline constexpr absl::string_view kSuspectPayload = "tethys/suspect";

// Returns `error` with the name of the suspected member (RingOptions::MemberText) as a payload.
inline absl::Status Suspecting(absl::Status error, absl::string_view member) {
  error.SetPayload(kSuspectPayload, absl::Cord(member));
  return error;
}

// The member that `error` blames, "rank 2 (worker 2 on 10.0.0.3)"; empty: none.
inline std::string SuspectOf(const absl::Status& error) {
  const auto member = error.GetPayload(kSuspectPayload);
  return member.has_value() ? std::string(*member) : "";
}

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_SUSPECT_H_
