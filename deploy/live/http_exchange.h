// A small, strict part of HTTP/1.1 (RFC 9112) for the live view: one GET or HEAD request without a body on a
// connection, and its answer. Whatever is unusual is refused: proxies and servers that read such requests
// differently are how requests are smuggled. Pure; any thread.
#ifndef TETHYS_DEPLOY_LIVE_HTTP_EXCHANGE_H_
#define TETHYS_DEPLOY_LIVE_HTTP_EXCHANGE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

// Longer requests are refused.
inline constexpr size_t kMostRequestBytes = 8 * 1024;

struct HttpRequest {
  bool head = false;  // HEAD, not GET.
  std::string path;   // "/state.json", as received: nothing is decoded.
  std::string query;  // The text behind '?', or empty.
  std::string host;
  std::vector<std::pair<std::string, std::string>> headers;  // Names in lower case.

  // The value of the header `name`; empty if there is none or if there are several.
  std::string Header(absl::string_view name) const;
  // The value of a cookie; empty if there is none.
  std::string Cookie(absl::string_view name) const;
  // The value of a parameter of the query, as received; empty if there is none.
  std::string Parameter(absl::string_view name) const;
};

struct HttpParse {
  bool complete = false;  // The request is whole or refused; false: more bytes are needed.
  int refusal = 0;        // The status of a refusal, 400 or above; 0: `request` is valid.
  std::string reason;     // Why the request is refused; it never quotes the request.
  HttpRequest request;
};
// Parses what a connection has received so far. Bytes after the request are ignored.
HttpParse ParseHttpRequest(absl::string_view received);

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // Further ones.
};
// The answer's bytes, with headers that forbid caching, framing, sniffing of types and sending of referrers,
// and scripts and styles without `nonce`. `head`: without the body, but with its length.
std::string HttpAnswerBytes(const HttpAnswer& answer, absl::string_view nonce, bool head);

// Compares in a time that depends on the lengths only.
bool SameSecret(absl::string_view a, absl::string_view b);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_HTTP_EXCHANGE_H_
