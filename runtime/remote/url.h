// URLs of data: their parts, and the words in which errors show them. Pure; any thread.
#ifndef TETHYS_RUNTIME_REMOTE_URL_H_
#define TETHYS_RUNTIME_REMOTE_URL_H_

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace tethys {

// SCHEME://AUTHORITY/PATH. For http and https the path is what follows the host in the request, query
// included; for webhdfs, swebhdfs and s3 it is a path or key as it is, without escapes.
struct Url {
  std::string scheme;     // In lower case.
  std::string authority;  // HOST or HOST:PORT, in lower case; for webhdfs a list; for s3 the bucket.
  std::string path;       // Begins with '/'.

  std::string text() const { return absl::StrCat(scheme, "://", authority, path); }
};

// Whether a path of a job names something on another machine: it begins with the name of a scheme and ://.
bool IsUrl(absl::string_view path);

// InvalidArgument: no URL, a scheme that is not read, no host, a port that is none, a user or password before
// the host, characters that a URL cannot have, or a fragment. The error shows neither user nor password.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

// The URL that a server's Location header names, relative to `base`. InvalidArgument: another scheme than
// http and https, or what ParseUrl refuses.
absl::StatusOr<Url> ResolveLocation(const Url& base, absl::string_view location);

// The machines that an authority lists, each as HOST:PORT; the last port holds for those that have none, and
// `default_port` for all if there is none. InvalidArgument as of ParseUrl.
absl::StatusOr<std::vector<std::string>> HostList(absl::string_view authority, int default_port);

// Writes every byte but letters, digits, '-', '.', '_', '~' and those of `keep` as %XX.
std::string PercentEncode(absl::string_view text, absl::string_view keep = "");

// A URL without its query, which may hold a signature, for errors.
std::string ShownUrl(absl::string_view url);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_URL_H_
