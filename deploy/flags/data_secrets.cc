#include "deploy/flags/data_secrets.h"

#include <string>

#include "runtime/base/file.h"
#include "runtime/remote/remote_files.h"
#include "runtime/remote/remote_secrets.h"

namespace tethys {

FlagSpec SecretsFlag() {
  return {.name = "secrets",
          .value = "FILE",
          .help =
              "The file with passwords and keys for data named by URLs. The file must be readable only by "
              "its owner (docs/data.md). Default: the file secrets beside the host file, if there is one, "
              "otherwise ~/.config/tethys/secrets.",
          .is_input = true};
}

void UseSecretsOf(const Flags& flags) {
  if (flags.Has("secrets")) {
    return SetSecretsSource([path = flags.Get("secrets")] { return ReadRemoteSecrets(path); });
  }
  std::string path = DefaultSecretsPath();
  if (flags.Has("hostfile")) {
    const std::string hosts = flags.Get("hostfile");
    const std::string beside = hosts.substr(0, hosts.rfind('/') + 1) + "secrets";
    if (FileExists(beside)) path = beside;
  }
  SetSecretsSource([path]() -> absl::StatusOr<proto::RemoteSecrets> {
    if (!FileExists(path)) return proto::RemoteSecrets();
    return ReadRemoteSecrets(path);
  });
}

}  // namespace tethys
