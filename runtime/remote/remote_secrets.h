// Reads the file with user names, passwords and keys for data on other machines (proto/remote_secrets.proto),
// and finds the secrets for a URL. No error and no log quotes a secret. All functions may be called from any
// thread.
#ifndef TETHYS_RUNTIME_REMOTE_REMOTE_SECRETS_H_
#define TETHYS_RUNTIME_REMOTE_REMOTE_SECRETS_H_

#include <string>

#include "proto/remote_secrets.pb.h"
#include "runtime/base/status.h"
#include "runtime/remote/http_transport.h"

namespace tethys {

// Limit on files of secrets or of certificates; longer files are refused.
inline constexpr int64_t kMostSecretBytes = 1 << 20;

// The secrets in a text. InvalidArgument, which names `path` and the line: the text cannot be parsed, or a
// RemotePlace is incomplete.
absl::StatusOr<proto::RemoteSecrets> ParseRemoteSecrets(const std::string& text, const std::string& path);

// Reads the file of secrets and the certificates that it names. PermissionDenied: users other than the file's
// owner can access it, or the file belongs to another user.
absl::StatusOr<proto::RemoteSecrets> ReadRemoteSecrets(const std::string& path);

// The file ~/.config/tethys/secrets of the user who runs this process. The home directory is taken from the
// user database.
std::string DefaultSecretsPath();

// The name of the user who runs this process; the user's number, if there is no name.
std::string ProcessUser();

// The RemotePlace in `secrets` with the longest prefix that `url` begins with; a RemotePlace without fields
// if `url` begins with no prefix in `secrets`.
const proto::RemotePlace& PlaceOf(const proto::RemoteSecrets& secrets, absl::string_view url);

// The user name and password, or the token, of a RemotePlace.
HttpCredentials WebCredentials(const proto::RemotePlace& place);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_REMOTE_SECRETS_H_
