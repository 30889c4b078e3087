// A small, strict part of HTTP/1.1 (RFC 9112) for the live view: one GET or HEAD request without a body on a
// connection, and its answer. Unusual requests are refused, because proxies and servers may read them
// differently (request smuggling). Pure; any thread.
#ifndef TETHYS_DEPLOY_LIVE_HTTP_EXCHANGE_H_
#define TETHYS_DEPLOY_LIVE_HTTP_EXCHANGE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tethys {

// Requests with more bytes are refused.
inline constexpr size_t kMostRequestBytes = 8 * 1024;

struct PageRequest {
  bool head = false;  // True for a HEAD request.
  std::string path;   // "/state.json", as received: nothing is decoded.
  std::string query;  // The text after '?', or empty.
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
  bool complete = false;  // True: the request is whole or refused. False: more bytes are needed.
  int refusal = 0;        // The status of a refusal, 400 or above; 0: `request` is valid.
  std::string reason;     // The reason for a refusal. The text never quotes the request.
  PageRequest request;
};
// Parses the bytes that a connection has received so far. Bytes after the request are ignored.
HttpParse ParseHttpRequest(absl::string_view received);

struct PageAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // Further headers of the answer.
};
// The answer's bytes. Its headers forbid caching, framing, type sniffing, referrers, and scripts and styles
// without `nonce`. `head`: the body is left out, but its length is stated.
std::string HttpAnswerBytes(const PageAnswer& answer, absl::string_view nonce, bool head);

// Compares two secrets in a time that depends only on their lengths.
bool SameSecret(absl::string_view a, absl::string_view b);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_HTTP_EXCHANGE_H_
