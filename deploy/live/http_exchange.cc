#include "deploy/live/http_exchange.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tethys {
namespace {

constexpr size_t kMostHeaders = 64;

// True if `text` is a token (RFC 9110, 5.6.2).
bool IsToken(absl::string_view text) {
  return !text.empty() && absl::c_all_of(text, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("!#$%&'*+-.^_`|~", c);
  });
}

HttpParse Refuse(int status, const char* reason) {
  HttpParse parse;
  parse.complete = true;
  parse.refusal = status;
  parse.reason = reason;
  return parse;
}

// Parses "GET /path?query HTTP/1.1". Returns the HTTP status with which the request is refused, or 0 if the
// line is valid.
int ParseRequestLine(absl::string_view line, PageRequest& request) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !IsToken(words[0])) return 400;
  const bool visible = absl::c_all_of(words[1], [](char c) { return c > ' ' && c < 0x7f; });
  if (!visible || !absl::StartsWith(words[1], "/") || absl::StrContains(words[1], '#')) return 400;
  if (words[2] != "HTTP/1.1") return absl::StartsWith(words[2], "HTTP/") ? 505 : 400;
  if (words[0] != "GET" && words[0] != "HEAD") return 405;
  request.head = words[0] == "HEAD";
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  request.path = std::string(target.first);
  request.query = std::string(target.second);
  return 0;
}

// Adds the header "Name: value" to the request. Returns false if the line is malformed. A folded line begins
// with a space, so its name is no token.
bool AddHeader(absl::string_view line, PageRequest& request) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon))) return false;
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  const bool printable = absl::c_all_of(value, [](char c) { return (c >= ' ' && c < 0x7f) || c == '\t'; });
  if (!printable) return false;
  request.headers.emplace_back(absl::AsciiStrToLower(line.substr(0, colon)), value);
  return true;
}

const char* ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 303:
      return "See Other";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Bad Request";
  }
}

}  // namespace

std::string PageRequest::Header(absl::string_view name) const {
  std::string found;
  int count = 0;
  for (const auto& [key, value] : headers) {
    if (key != name) continue;
    found = value;
    ++count;
  }
  return count == 1 ? found : "";
}

std::string PageRequest::Cookie(absl::string_view name) const {
  const std::string cookies = Header("cookie");
  for (absl::string_view cookie : absl::StrSplit(cookies, ';')) {
    cookie = absl::StripAsciiWhitespace(cookie);
    if (absl::ConsumePrefix(&cookie, name) && absl::ConsumePrefix(&cookie, "=")) return std::string(cookie);
  }
  return "";
}

std::string PageRequest::Parameter(absl::string_view name) const {
  for (absl::string_view part : absl::StrSplit(query, '&')) {
    if (absl::ConsumePrefix(&part, name) && absl::ConsumePrefix(&part, "=")) return std::string(part);
  }
  return "";
}

HttpParse ParseHttpRequest(absl::string_view received) {
  const size_t end = received.substr(0, kMostRequestBytes).find("\r\n\r\n");
  if (end == absl::string_view::npos) {
    if (received.size() < kMostRequestBytes) return {};
    return Refuse(431, "the request has more than 8 KiB");
  }
  const std::vector<absl::string_view> lines = absl::StrSplit(received.substr(0, end), "\r\n");
  HttpParse parse;
  parse.complete = true;
  PageRequest& request = parse.request;
  if (const int status = ParseRequestLine(lines[0], request); status != 0) {
    return Refuse(status, status == 405   ? "only GET and HEAD are answered"
                          : status == 505 ? "only HTTP/1.1 is supported"
                                          : "the first line is not a request line");
  }
  if (lines.size() - 1 > kMostHeaders) return Refuse(431, "there are more than 64 headers");
  int hosts = 0, lengths = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (!AddHeader(lines[i], request)) return Refuse(400, "a header is malformed");
    const auto& [name, value] = request.headers.back();
    if (name == "host") {
      ++hosts;
      request.host = value;
    }
    if (name == "transfer-encoding") return Refuse(400, "requests with a body are not accepted");
    if (name == "content-length" && (value != "0" || ++lengths > 1)) {
      return Refuse(413, "requests with a body are not accepted");
    }
  }
  if (hosts != 1 || request.host.empty()) return Refuse(400, "there must be one header Host");
  return parse;
}

std::string HttpAnswerBytes(const PageAnswer& answer, absl::string_view nonce, bool head) {
  std::string bytes =
      absl::StrCat("HTTP/1.1 ", answer.status, " ", ReasonPhrase(answer.status),
                   "\r\nContent-Type: ", answer.type, "\r\nContent-Length: ", answer.body.size(),
                   "\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                   "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
                   "Content-Security-Policy: default-src 'none'; script-src 'nonce-",
                   nonce, "'; style-src 'nonce-", nonce,
                   "'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n");
  for (const auto& [name, value] : answer.headers) absl::StrAppend(&bytes, name, ": ", value, "\r\n");
  absl::StrAppend(&bytes, "\r\n", head ? "" : answer.body);
  return bytes;
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace tethys
