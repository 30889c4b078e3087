// The user names, passwords and keys for data on other machines (proto/remote_secrets.proto): reading them
// from their file, and finding those that a URL needs. No error and no log quotes a secret. Any thread.
#ifndef TETHYS_RUNTIME_REMOTE_REMOTE_SECRETS_H_
#define TETHYS_RUNTIME_REMOTE_REMOTE_SECRETS_H_

#include <string>

#include "proto/remote_secrets.pb.h"
#include "runtime/base/status.h"
#include "runtime/remote/http_transport.h"

namespace tethys {

// Longer files, of secrets or of certificates, are refused.
inline constexpr int64_t kMostSecretBytes = 1 << 20;

// The secrets in a text. InvalidArgument, which names `path` and the line: it is no such text, or a place is
// incomplete.
absl::StatusOr<proto::RemoteSecrets> ParseRemoteSecrets(const std::string& text, const std::string& path);

// Reads the file and the certificates that it names. PermissionDenied: users other than its owner can access
// it, or it is owned by another user.
absl::StatusOr<proto::RemoteSecrets> ReadRemoteSecrets(const std::string& path);

// ~/.config/tethys/secrets of the user whose process this is. The home directory is that of the user
// database.
std::string DefaultSecretsPath();

// The name of the user whose process this is; its number, if it has no name.
std::string ProcessUser();

// The place for a URL, or one without fields if there is none.
const proto::RemotePlace& PlaceOf(const proto::RemoteSecrets& secrets, absl::string_view url);

// A place's password or token.
HttpCredentials WebCredentials(const proto::RemotePlace& place);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_REMOTE_SECRETS_H_
