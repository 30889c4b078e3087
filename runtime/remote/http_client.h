// HTTP requests for data. The client sends the secrets for the URL, follows redirects and retries.
//
// Invariants:
// 1. Secrets go only to URLs that begin with the prefix of the secrets: after a redirect, a server gets the
// secrets for its own URL only.
// 2. The client follows at most kMostRedirects redirects, only to http and https, never from https to http,
//    and never to a URL that the request has already visited.
// 3. After failures that may pass (no connection, a broken connection, silence, 5xx, 408, 429), a request is
// retried with growing pauses; after failures that will not pass (401, 403, 404, a bad certificate), the
// request is not retried.
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
  std::string name = {};  // For errors: the file's name as the job writes it.
  Url url = {};
  bool head = false;
  std::vector<std::string> headers = {};
  int64_t most_bytes = 0;
  std::string* spare = nullptr;  // Same meaning as HttpRequest::spare.
  bool follow = true;            // False: a redirect is returned as the answer.
  // Sent to the first server in place of the secrets for its URL; null: the secrets for its URL are sent.
  const HttpCredentials* credentials = nullptr;
  const std::string* ca_certificates = nullptr;
};

struct HttpReply {
  HttpAnswer answer;
  Url url;  // The URL whose server answered, after redirects.

  bool success() const { return answer.status >= 200 && answer.status < 300; }
};

bool IsRedirect(int status);

// The URL to which a redirect leads. FailedPrecondition: the redirect names no URL, or a URL that invariant 2
// forbids. Redirect loops are not detected here.
absl::StatusOr<Url> RedirectOf(const HttpAnswer& answer, const Url& from);

struct HttpPatience {
  int tries = 4;
  // The first pause; each later pause is twice as long as the one before.
  Nanoseconds first_pause = 500 * kMillisecond;
  Nanoseconds namenodes = 60 * kSecond;  // How long requests to NameNodes that are not ready are retried.
  // Waits for the given time; returns early if the process ends.
  std::function<void(Nanoseconds)> pause;
};

// Immutable; thread-safe. The calls block.
class HttpClient {
 public:
  static constexpr int kMostRedirects = 5;

  HttpClient(HttpTransport& transport, const proto::RemoteSecrets& secrets, HttpPatience patience)
      : transport_(transport), secrets_(secrets), patience_(std::move(patience)) {}

  // Makes one try. Has the errors of HttpTransport::Exchange, with the file's name before the message.
  // FailedPrecondition: a redirect that cannot be followed.
  absl::StatusOr<HttpReply> Once(const HttpCall& call) const;

  // Repeats the request until an answer has a status for which MayPass is false (every success has such a
  // status), or until the tries are used up.
  absl::StatusOr<HttpReply> Try(const HttpCall& call) const;

  // Calls `once` until it returns neither Unavailable nor DeadlineExceeded, or until the tries are used up.
  // Pauses between the tries as Try does. The error of the last try says how many tries there were.
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
