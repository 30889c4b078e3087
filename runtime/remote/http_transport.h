// One HTTP exchange: a request to one server and its answer, without redirects and without a second try. The
// implementation, which uses libcurl, is libtethys_remote.so (remote_library.h); tests have others.
#ifndef TETHYS_RUNTIME_REMOTE_HTTP_TRANSPORT_H_
#define TETHYS_RUNTIME_REMOTE_HTTP_TRANSPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// Names the sender to a server; at most one of the three kinds.
struct HttpCredentials {
  std::string user, password;  // Basic; with `region` the key's name and the key.
  std::string bearer_token;
  std::string region;  // AWS signature, version 4, for the service s3 in this region.
};

struct HttpRequest {
  std::string url;  // http or https.
  bool head = false;
  std::vector<std::string> headers = {};  // "Name: value"
  HttpCredentials credentials = {};
  std::string ca_certificates = {};  // PEM; the authorities that are trusted. Empty: the system's.
  int64_t most_bytes = 0;            // The most bytes of the body of a successful answer.
  std::string* spare = nullptr;      // An empty string whose memory such a body may take, or null.
};

struct HttpAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers = {};  // Names in lower case.
  std::string body = {};
  bool body_is_longer = false;  // The body has more bytes than were allowed; the first ones are in `body`.

  // Null if there is none of this name.
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
  Nanoseconds quiet = 30 * kSecond;  // The longest time without a byte; whole seconds.
  Nanoseconds whole = 300 * kSecond;
};

// Thread-safe.
class HttpTransport {
 public:
  // The most bytes of the body of an unsuccessful answer that are kept; it only explains the error.
  static constexpr int64_t kMostErrorBytes = 1 << 16;

  virtual ~HttpTransport() = default;

  // Blocks, up to the deadlines. An answer with any status is a success. Errors name the host, not the URL.
  // Unavailable or DeadlineExceeded: no whole answer came, but one may at another try. FailedPrecondition:
  // the server's certificate does not fit. InvalidArgument: the URL cannot be used. Cancelled: after Stop.
  virtual absl::StatusOr<HttpAnswer> Exchange(const HttpRequest& request) = 0;

  // Ends all exchanges, running and future.
  virtual void Stop() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_HTTP_TRANSPORT_H_
