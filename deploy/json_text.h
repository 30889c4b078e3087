// Texts in JSON. Pure; any thread.
#ifndef TETHYS_DEPLOY_JSON_TEXT_H_
#define TETHYS_DEPLOY_JSON_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

// `text` as a JSON string, with its quotes.
std::string JsonQuoted(absl::string_view text);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_JSON_TEXT_H_
