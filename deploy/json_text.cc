#include "deploy/json_text.h"

#include "absl/strings/str_format.h"

namespace tethys {

std::string JsonQuoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted.append({'\\', c});
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned int>(c));
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

}  // namespace tethys
