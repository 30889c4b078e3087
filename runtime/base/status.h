// Error handling: everything that can fail returns absl::Status or absl::StatusOr; nothing throws.
//
// TETHYS_CHECK is for our own bugs only and must never be reachable from input, the network or a file.
#ifndef TETHYS_RUNTIME_BASE_STATUS_H_
#define TETHYS_RUNTIME_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tethys {

// Returns a status of the same code and payloads, whose message begins with `context` and ": ". OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// "INVALID_ARGUMENT: message", or "OK".
std::string StatusText(const absl::Status& status);

// An error from errno, mapped to the nearest code: "CONTEXT: No such file or directory".
absl::Status ErrnoStatus(int error_number, absl::string_view context);

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const std::string& message);
}  // namespace internal

}  // namespace tethys

#define TETHYS_CONCAT_INNER_(a, b) a##b
#define TETHYS_CONCAT_(a, b) TETHYS_CONCAT_INNER_(a, b)

#define TETHYS_RETURN_IF_ERROR(expression)                                                       \
  do {                                                                                           \
    if (absl::Status tethys_status_ = (expression); !tethys_status_.ok()) return tethys_status_; \
  } while (false)

// TETHYS_ASSIGN_OR_RETURN(auto value, Compute());
#define TETHYS_ASSIGN_OR_RETURN(declaration, expression) \
  TETHYS_ASSIGN_OR_RETURN_(TETHYS_CONCAT_(tethys_status_or_, __LINE__), declaration, expression)
#define TETHYS_ASSIGN_OR_RETURN_(temporary, declaration, expression) \
  auto temporary = (expression);                                     \
  if (!temporary.ok()) return temporary.status();                    \
  declaration = *std::move(temporary)

// TETHYS_CHECK(n > 0) or TETHYS_CHECK(n > 0, "n is ", n): prints and aborts.
#define TETHYS_CHECK(condition, ...)                                                              \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::tethys::internal::CheckFailed(__FILE__, __LINE__, #condition, absl::StrCat(__VA_ARGS__)); \
  } while (false)

#endif  // TETHYS_RUNTIME_BASE_STATUS_H_
