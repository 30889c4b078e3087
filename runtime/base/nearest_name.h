// Suggests the intended name in messages about a misspelt name. Used for names that people write: flags,
// verbs, fields of a job. Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_NEAREST_NAME_H_
#define TETHYS_RUNTIME_BASE_NEAREST_NAME_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tethys {

// The known name that begins with `name` or is the fewest edits away, ignoring case; empty if the edits are
// too many for a typing mistake.
std::string NearestName(absl::string_view name, absl::Span<const std::string> known);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_NEAREST_NAME_H_
