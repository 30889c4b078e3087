// URLs of data: their parts, and the text with which error messages show them. Pure; any thread.
#ifndef TETHYS_RUNTIME_REMOTE_URL_H_
#define TETHYS_RUNTIME_REMOTE_URL_H_

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace tethys {

// SCHEME://AUTHORITY/PATH. For http and https, the path is everything after the host, including the query.
// For webhdfs, swebhdfs and s3, the path is a path or key without escapes.
struct Url {
  std::string scheme;     // In lower case.
  std::string authority;  // HOST or HOST:PORT, in lower case; for webhdfs a list of these; for s3 the bucket.
  std::string path;       // Begins with '/'.

  std::string text() const { return absl::StrCat(scheme, "://", authority, path); }
};

// Whether a path of a job names a file on another machine: such a path begins with the name of a scheme and
// "://".
bool IsUrl(absl::string_view path);

// InvalidArgument: the text is no URL, or has an unknown scheme, no host, an invalid port, a user name or
// password before the host, characters that a URL cannot have, or a fragment. The error shows neither user
// name nor password.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

// The URL that a server's Location header names, relative to `base`. InvalidArgument: a scheme other than
// http and https, or a URL that ParseUrl refuses.
absl::StatusOr<Url> ResolveLocation(const Url& base, absl::string_view location);

// The machines that an authority lists, each as HOST:PORT. Machines without a port get the last port of the
// list, or `default_port` if the list has no port. InvalidArgument as in ParseUrl.
absl::StatusOr<std::vector<std::string>> HostList(absl::string_view authority, int default_port);

// Writes every byte except letters, digits, '-', '.', '_', '~' and the bytes in `keep` as %XX.
std::string PercentEncode(absl::string_view text, absl::string_view keep = "");

// The text of a URL for errors: without the query, which may contain a signature.
std::string ShownUrl(absl::string_view url);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_URL_H_
