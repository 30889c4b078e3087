// Manual pages in troff, with the macros of man(7), from the verbs' own table: tethys(1), and tethys-VERB(1)
// for each verb. Pure; any thread.
#ifndef TETHYS_DEPLOY_FLAGS_MANUAL_PAGE_H_
#define TETHYS_DEPLOY_FLAGS_MANUAL_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "deploy/flags/flags.h"

namespace tethys {

// The page of the whole command. `summary` is its first sentence, `version` such as "Tethys 0.1.0".
std::string CommandPage(absl::Span<const CommandSpec> specs, absl::string_view summary,
                        absl::string_view version);

// The page of one verb.
std::string VerbPage(const CommandSpec& spec, absl::string_view version);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_MANUAL_PAGE_H_
