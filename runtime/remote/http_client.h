// Requests for data by HTTP: with the secrets of their URL, redirects and further tries.
//
// Invariants:
// 1. Secrets go only to URLs that begin with their prefix: a server that is redirected to gets its own.
// 2. At most kMostRedirects redirects, only to http and https, never from https to http, never in a circle.
// 3. What may pass (no connection, a cut one, silence, 5xx, 408, 429) is tried again after growing pauses;
//    what will not (401, 403, 404, a certificate) is not.
#ifndef TETHYS_RUNTIME_REMOTE_HTTP_CLIENT_H_
#define TETHYS_RUNTIME_REMOTE_HTTP_CLIENT_H_

#include <functional>
#include <string>
#include <vector>

#include "proto/remote_secrets.pb.h"
#include "runtime/remote/http_transport.h"
#include "runtime/remote/url.h"

namespace tethys {

struct HttpCall {
  std::string name = {};  // For errors: the file as the job names it.
  Url url = {};
  bool head = false;
  std::vector<std::string> headers = {};
  int64_t most_bytes = 0;
  std::string* spare = nullptr;  // As in HttpRequest.
  bool follow = true;            // False: a redirect is the answer.
  // Sent to the first server in place of the secrets for its URL; null: the secrets for its URL are sent.
  const HttpCredentials* credentials = nullptr;
  const std::string* ca_certificates = nullptr;
};

struct HttpReply {
  HttpAnswer answer;
  Url url;  // Where the answer came from, after redirects.

  bool success() const { return answer.status >= 200 && answer.status < 300; }
};

bool IsRedirect(int status);

// Where a redirect leads. FailedPrecondition: nowhere, or to where invariant 2 forbids, apart from circles.
absl::StatusOr<Url> RedirectOf(const HttpAnswer& answer, const Url& from);

struct HttpPatience {
  int tries = 4;
  Nanoseconds first_pause = 500 * kMillisecond;  // Doubled after each try.
  Nanoseconds namenodes = 60 * kSecond;          // How long NameNodes that are not ready are asked again.
  // Waits; returns early if the process ends.
  std::function<void(Nanoseconds)> pause;
};

// Immutable; thread-safe. The calls block.
class HttpClient {
 public:
  static constexpr int kMostRedirects = 5;

  HttpClient(HttpTransport& transport, const proto::RemoteSecrets& secrets, HttpPatience patience)
      : transport_(transport), secrets_(secrets), patience_(std::move(patience)) {}

  // One try. Errors are those of HttpTransport::Exchange, with the file's name, and of redirects that are not
  // followed (FailedPrecondition).
  absl::StatusOr<HttpReply> Once(const HttpCall& call) const;

  // Tries until there is an answer that will not pass, which any status of success is, too.
  absl::StatusOr<HttpReply> Try(const HttpCall& call) const;

  // As above, for `once`, which makes one try: Unavailable and DeadlineExceeded are tried again. The last
  // error says how often it was tried.
  absl::Status TryAgain(const std::function<absl::Status()>& once) const;

  const proto::RemoteSecrets& secrets() const { return secrets_; }
  const HttpPatience& patience() const { return patience_; }

 private:
  HttpTransport& transport_;
  const proto::RemoteSecrets& secrets_;
  const HttpPatience patience_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_HTTP_CLIENT_H_
