// Words of HTTP: headers of ranges, and what a status means for those who read data. Pure; any thread.
#ifndef TETHYS_RUNTIME_REMOTE_HTTP_WORDS_H_
#define TETHYS_RUNTIME_REMOTE_HTTP_WORDS_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "runtime/base/status.h"
#include "runtime/remote/http_transport.h"

namespace tethys {

// "bytes 0-99/1000": the first and the last byte, and the size of the whole; -1: the size is not known.
struct ContentRange {
  int64_t first = 0;
  int64_t last = 0;
  int64_t size = -1;
};

// Nothing: it is no range of bytes, or lies outside the size.
absl::optional<ContentRange> ParseContentRange(absl::string_view text);

// A number of bytes in decimal digits. Nothing: it is none, or above 2^62.
absl::optional<int64_t> ParseByteCount(absl::string_view text);

// Whether a request that was answered so may be answered otherwise in a while.
bool MayPass(int status);

// What the answer says and what to do, as an error; requires that it is no success. `name` is the file's.
// NotFound, PermissionDenied, Unavailable (those that MayPass) or FailedPrecondition.
absl::Status RefusalStatus(const HttpAnswer& answer, const std::string& name, const std::string& host);

// The first line of an answer's body, if that is text: at most 200 printable characters.
std::string FirstWords(absl::string_view body);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_HTTP_WORDS_H_
