#include "runtime/data/class_names.h"

#include <cstdint>

#include "runtime/data/chief_paths.h"
#include "runtime/data/data_format.h"

namespace tethys {
namespace {

// The number of bytes of the UTF-8 character with which `text` begins (RFC 3629); 0: `text` begins with no
// valid character.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(i < text.size() ? text[i] : 0); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xc2 && first < 0xe0 ? 2
                       : (first & 0xf0) == 0xe0      ? 3
                       : (first & 0xf8) == 0xf0      ? 4
                                                     : 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool beyond = first > 0xf4 || (first == 0xf4 && byte(1) >= 0x90);
  return overlong || surrogate || beyond ? 0 : bytes;
}

}  // namespace

std::string CleanClassName(absl::string_view name) {
  std::string clean;
  while (!name.empty()) {
    const size_t bytes = CharacterBytes(name);
    const auto first = static_cast<uint8_t>(name[0]);
    const bool control = first < 0x20 || first == 0x7f ||
                         (first == 0xc2 && bytes == 2 && static_cast<uint8_t>(name[1]) < 0xa0);
    if (bytes == 0 || control) {
      clean += '?';
    } else {
      clean.append(name.data(), bytes);
    }
    name.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return clean;
}

absl::StatusOr<std::vector<std::string>> ClassNamesOf(const proto::Data& named) {
  std::vector<std::string> names(named.class_name().begin(), named.class_name().end());
  if (names.empty()) {
    const proto::Data data = OnChiefsMachine(named);
    const DataFormat& format = FormatOf(data);
    if (format.class_names == nullptr) return names;
    TETHYS_ASSIGN_OR_RETURN(names, format.class_names(data));
  }
  if (static_cast<int64_t>(names.size()) != named.classes()) return std::vector<std::string>();
  for (std::string& name : names) name = CleanClassName(name);
  return names;
}

}  // namespace tethys
