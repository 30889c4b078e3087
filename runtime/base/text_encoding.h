// The encoding of text files that people write with programs of any system. Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_TEXT_ENCODING_H_
#define TETHYS_RUNTIME_BASE_TEXT_ENCODING_H_

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"

namespace tethys {

// Returns `text`, the content of `file`, without its byte order mark of UTF-8, if it has one. Windows'
// programs write this mark before the first character. InvalidArgument: the text is in UTF-16 or UTF-32,
// which Windows' Notepad calls Unicode; the message says how to convert it.
absl::StatusOr<absl::string_view> WithoutByteOrderMark(absl::string_view text, absl::string_view file);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_TEXT_ENCODING_H_
