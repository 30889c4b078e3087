// What a misspelt name was probably meant to be, for messages that refuse it. Called by whoever reads names
// that people write: flags, verbs, fields of a job. Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_NEAREST_NAME_H_
#define TETHYS_RUNTIME_BASE_NEAREST_NAME_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tethys {

// The known name that begins with `name` or takes the fewest edits from it, whatever the case, if those are
// few enough for a slip of the hand; else empty.
std::string NearestName(absl::string_view name, absl::Span<const std::string> known);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_NEAREST_NAME_H_
