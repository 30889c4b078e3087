#include "runtime/remote/url.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace tethys {
namespace {

constexpr absl::string_view kSchemes[] = {"http", "https", "webhdfs", "swebhdfs", "s3"};
constexpr size_t kMostBytes = 1 << 13;

// The text before "://", if it is the name of a scheme; otherwise empty.
absl::string_view SchemeOf(absl::string_view text) {
  const size_t end = text.find("://");
  if (end == absl::string_view::npos || end == 0 || !absl::ascii_isalpha(text[0])) return {};
  const absl::string_view scheme = text.substr(0, end);
  const bool clean = std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '+' || c == '-' || c == '.';
  });
  return clean ? scheme : absl::string_view();
}

bool IsWeb(absl::string_view scheme) { return scheme == "http" || scheme == "https"; }

absl::Status CheckPort(absl::string_view port) {
  int number = 0;
  if (absl::SimpleAtoi(port, &number) && number >= 1 && number <= 65535) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", port, "' is no port: write HOST or HOST:PORT"));
}

// The position of the ':' before the port in HOST:PORT or [IPV6]:PORT; npos: `host` has no port.
size_t PortColon(absl::string_view host) {
  const size_t close = host.find(']');
  return host.find(':', close == absl::string_view::npos ? 0 : close);
}

absl::Status CheckHost(absl::string_view host) {
  const size_t colon = PortColon(host);
  const absl::string_view name = host.substr(0, colon);
  const absl::string_view allowed = host[0] == '[' ? "[]:.%" : "-._";
  const bool clean = std::all_of(name.begin(), name.end(), [&](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains(allowed, static_cast<char>(c));
  });
  if (name.empty() || !clean) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a host name"));
  }
  return colon == absl::string_view::npos ? absl::OkStatus() : CheckPort(host.substr(colon + 1));
}

absl::Status CheckAuthority(absl::string_view scheme, absl::string_view authority) {
  if (absl::StrContains(authority, '@')) {
    return absl::InvalidArgumentError(
        "a user name or password is before the host, where logs would show it: remove it from the URL, and "
        "write it into the file of secrets (--secrets)");
  }
  if (authority.empty()) return absl::InvalidArgumentError("no host follows ://");
  if (absl::EndsWith(scheme, "webhdfs")) return HostList(authority, 1).status();
  return CheckHost(authority);
}

// Refuses characters that the first line of an HTTP request cannot contain. In keys of S3 and paths of HDFS
// only control characters are refused, because all other characters are escaped later.
absl::Status CheckPath(absl::string_view scheme, absl::string_view path) {
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsWeb(scheme) ? absl::ascii_isgraph(byte) && c != '#' : byte >= 0x20 && byte != 0x7f) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("the byte 0x%02X cannot be in a URL: write it as %%%02X", byte, byte));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsUrl(absl::string_view path) { return !SchemeOf(path).empty(); }

absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  Url url = {.scheme = absl::AsciiStrToLower(SchemeOf(text)), .authority = {}, .path = {}};
  if (std::find(std::begin(kSchemes), std::end(kSchemes), url.scheme) == std::end(kSchemes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        url.scheme.empty() ? "a URL begins with a scheme and ://" : url.scheme + ":// is not read",
        ": the supported schemes are http, https, webhdfs, swebhdfs and s3"));
  }
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a URL of more than ", kMostBytes, " bytes"));
  }
  const absl::string_view rest = text.substr(url.scheme.size() + 3);
  const size_t end = std::min(rest.find_first_of(IsWeb(url.scheme) ? "/?#" : "/"), rest.size());
  const std::string shown = absl::StrCat(url.scheme, "://...", ShownUrl(rest.substr(end)));
  const absl::Status host = CheckAuthority(url.scheme, rest.substr(0, end));
  if (!host.ok()) return Annotate(host, shown);
  TETHYS_RETURN_IF_ERROR(Annotate(CheckPath(url.scheme, rest.substr(end)), shown));
  url.authority =
      url.scheme == "s3" ? std::string(rest.substr(0, end)) : absl::AsciiStrToLower(rest.substr(0, end));
  url.path = absl::StrCat(absl::StartsWith(rest.substr(end), "/") ? "" : "/", rest.substr(end));
  return url;
}

absl::StatusOr<Url> ResolveLocation(const Url& base, absl::string_view location) {
  location = location.substr(0, location.find('#'));
  if (absl::StartsWith(location, "//")) return ParseUrl(absl::StrCat(base.scheme, ":", location));
  if (!SchemeOf(location).empty()) {
    TETHYS_ASSIGN_OR_RETURN(Url url, ParseUrl(location));
    if (IsWeb(url.scheme)) return url;
    return absl::InvalidArgumentError(
        absl::StrCat(url.scheme, ":// is not followed, only http:// and https://"));
  }
  // A location with a scheme but without "//", such as "javascript:", is not followed.
  const size_t colon = location.find(':');
  if (colon != absl::string_view::npos && colon < location.find_first_of("/?")) {
    return absl::InvalidArgumentError("only http:// and https:// are followed");
  }
  const absl::string_view path = absl::string_view(base.path).substr(0, base.path.find('?'));
  if (absl::StartsWith(location, "/")) {
    return ParseUrl(absl::StrCat(base.scheme, "://", base.authority, location));
  }
  const absl::string_view folder =
      absl::StartsWith(location, "?") ? path : path.substr(0, path.rfind('/') + 1);
  return ParseUrl(absl::StrCat(base.scheme, "://", base.authority, folder, location));
}

absl::StatusOr<std::vector<std::string>> HostList(absl::string_view authority, int default_port) {
  std::vector<std::string> hosts = absl::StrSplit(authority, ',');
  std::string port = absl::StrCat(default_port);
  for (auto host = hosts.rbegin(); host != hosts.rend(); ++host) {
    if (host->empty()) return absl::InvalidArgumentError("a list of hosts has an empty entry");
    TETHYS_RETURN_IF_ERROR(CheckHost(*host));
    const size_t colon = PortColon(*host);
    if (colon == std::string::npos) {
      absl::StrAppend(&*host, ":", port);
    } else if (host == hosts.rbegin()) {
      port = host->substr(colon + 1);
    }
  }
  return hosts;
}

std::string PercentEncode(absl::string_view text, absl::string_view keep) {
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._~", c) ||
        absl::StrContains(keep, c)) {
      encoded += c;
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string ShownUrl(absl::string_view url) {
  const size_t query = url.find('?');
  return query == absl::string_view::npos ? std::string(url) : absl::StrCat(url.substr(0, query), "?...");
}

}  // namespace tethys
