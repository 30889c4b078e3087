#include "runtime/base/text_encoding.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tethys {
namespace {

// The UTF-16 or UTF-32 encoding that the first bytes of `text` show. Null: the text has another encoding,
// such as UTF-8, in which ASCII characters keep their bytes. UTF-16 without a byte order mark is recognised
// because every second byte of ASCII text is 0.
const char* WideEncoding(absl::string_view text) {
  using absl::StartsWith;
  if (StartsWith(text, absl::string_view("\xff\xfe\0\0", 4)) ||
      StartsWith(text, absl::string_view("\0\0\xfe\xff", 4))) {
    return "UTF-32";
  }
  if (StartsWith(text, "\xff\xfe") || StartsWith(text, "\xfe\xff")) return "UTF-16";
  if (text.size() < 4 || (text[0] == '\0') == (text[1] == '\0')) return nullptr;
  if (text[0] == '\0') return text[2] == '\0' && text[3] != '\0' ? "UTF-16BE" : nullptr;
  return text[3] == '\0' ? (text[2] == '\0' ? "UTF-32LE" : "UTF-16LE") : nullptr;
}

}  // namespace

absl::StatusOr<absl::string_view> WithoutByteOrderMark(absl::string_view text, absl::string_view file) {
  if (const char* const encoding = WideEncoding(text); encoding != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is in ", encoding,
                                                   ": save it as UTF-8, for example by: iconv -f ", encoding,
                                                   " -t UTF-8 ", file, " > NEW"));
  }
  return absl::StripPrefix(text, "\xef\xbb\xbf");
}

}  // namespace tethys
