// Parsers of HTTP headers about ranges, and errors for HTTP statuses when data are read. Pure; any thread.
#ifndef TETHYS_RUNTIME_REMOTE_HTTP_WORDS_H_
#define TETHYS_RUNTIME_REMOTE_HTTP_WORDS_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "runtime/base/status.h"
#include "runtime/remote/http_transport.h"

namespace tethys {

// The value of the header Content-Range, such as "bytes 0-99/1000": the first byte, the last byte, and the
// size of the whole file (-1 if the size is not known).
struct ContentRange {
  int64_t first = 0;
  int64_t last = 0;
  int64_t size = -1;
};

// Absent: the header is not a range of bytes, or the range exceeds the size of the file.
absl::optional<ContentRange> ParseContentRange(absl::string_view text);

// A number of bytes in decimal digits. Absent: the text is no such number, or the number is above 2^62.
absl::optional<int64_t> ParseByteCount(absl::string_view text);

// Whether a request that got this status may get another status a little later.
bool MayPass(int status);

// The error for an unsuccessful answer; it gives the answer's status and first words, and says what to do.
// Requires that the answer is no success. `name` is the name of the file. The error is NotFound,
// PermissionDenied, Unavailable (where MayPass is true) or FailedPrecondition.
absl::Status RefusalStatus(const HttpAnswer& answer, const std::string& name, const std::string& host);

// The first line of an answer's body, cut to 200 characters; empty if the line is not text.
std::string FirstWords(absl::string_view body);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_HTTP_WORDS_H_
