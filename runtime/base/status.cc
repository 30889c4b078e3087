#include "runtime/base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/cord.h"

namespace tethys {

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

std::string StatusText(const absl::Status& status) {
  if (status.ok()) return "OK";
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
}

absl::Status ErrnoStatus(int error_number, absl::string_view context) {
  const absl::StatusCode code = [error_number] {
    switch (error_number) {
      case ENOENT:
        return absl::StatusCode::kNotFound;
      case EEXIST:
      case EADDRINUSE:
        return absl::StatusCode::kAlreadyExists;
      case EACCES:
      case EPERM:
        return absl::StatusCode::kPermissionDenied;
      case ENOSPC:
      case EDQUOT:
      case EMFILE:
      case ENOMEM:
        return absl::StatusCode::kResourceExhausted;
      case ETIMEDOUT:
        return absl::StatusCode::kDeadlineExceeded;
      case ECONNREFUSED:
      case ECONNRESET:
      case EPIPE:
        return absl::StatusCode::kUnavailable;
      default:
        return absl::StatusCode::kUnknown;
    }
  }();
  return absl::Status(code, absl::StrCat(context, ": ", std::strerror(error_number)));
}

namespace internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: check failed: %s %s\n", file, line, condition, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal
}  // namespace tethys
