// One HTTP exchange: a request to one server and its answer, without redirects and without a second try. The
// implementation, which uses libcurl, is in libtethys_remote.so (remote_library.h); tests have other
// implementations.
#ifndef TETHYS_RUNTIME_REMOTE_HTTP_TRANSPORT_H_
#define TETHYS_RUNTIME_REMOTE_HTTP_TRANSPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// The names and secrets that a request sends to a server: a user name and a password (basic authentication),
// a bearer token, or the keys of an AWS signature. At most one of these three kinds is set.
struct HttpCredentials {
  // If `region` is empty, user and password of basic authentication; otherwise, the name of the access key
  // and the secret key of an AWS signature.
  std::string user, password;
  std::string bearer_token;
  std::string region;  // Not empty: AWS signature, version 4, for the service s3 in this region.
};

struct HttpRequest {
  std::string url;  // The scheme is http or https.
  bool head = false;
  std::vector<std::string> headers = {};  // Each "Name: value".
  HttpCredentials credentials = {};
  // The certificates of the authorities that are trusted, in PEM. Empty: the authorities of the system are
  // trusted.
  std::string ca_certificates = {};
  int64_t most_bytes = 0;  // Limit on the body of a successful answer.
  // An empty string whose memory the body of a successful answer may take, or null.
  std::string* spare = nullptr;
};

struct HttpAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers = {};  // Pairs of name, in lower case, and value.
  std::string body = {};
  bool body_is_longer = false;  // The body exceeds HttpRequest::most_bytes; `body` has its first bytes.

  // The header's value; null if the answer has no header of this name.
  const std::string* Header(absl::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return &value;
    }
    return nullptr;
  }
};

// Deadlines of an exchange.
struct HttpDeadlines {
  Nanoseconds connect = 10 * kSecond;
  Nanoseconds quiet = 30 * kSecond;  // The longest time without a byte; must be whole seconds.
  Nanoseconds whole = 300 * kSecond;
};

// Thread-safe.
class HttpTransport {
 public:
  // How many bytes of the body of an unsuccessful answer are kept. They only serve to explain the error.
  static constexpr int64_t kMostErrorBytes = 1 << 16;

  virtual ~HttpTransport() = default;

  // Sends a request and returns the server's answer. Blocks, up to the deadlines. An answer with any status
  // is a success. Errors name the host, not the URL. Unavailable or DeadlineExceeded: no whole answer was
  // received, but another try may succeed. FailedPrecondition: the server's certificate is not accepted.
  // InvalidArgument: the URL cannot be used. Cancelled: Stop was called.
  virtual absl::StatusOr<HttpAnswer> Exchange(const HttpRequest& request) = 0;

  // Ends all running exchanges, and makes all later ones fail.
  virtual void Stop() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_HTTP_TRANSPORT_H_
