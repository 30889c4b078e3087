// The secret with which callers on other machines read the metrics of a live view. Blocking on a local file;
// any thread.
#ifndef TETHYS_DEPLOY_LIVE_METRICS_TOKEN_H_
#define TETHYS_DEPLOY_LIVE_METRICS_TOKEN_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

// The first line of the file: 16 to 256 letters, digits and signs of a bearer token (RFC 6750, 2.1). Errors
// name the path and the remedy. PermissionDenied: users other than the owner may read or write the file, or
// the file belongs to another user. InvalidArgument: the path is a folder, or the file holds no token.
absl::StatusOr<std::string> ReadMetricsToken(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_METRICS_TOKEN_H_
