// The secrets for data on other machines (proto/remote_secrets.proto), for the verbs that read data.
#ifndef TETHYS_DEPLOY_FLAGS_DATA_SECRETS_H_
#define TETHYS_DEPLOY_FLAGS_DATA_SECRETS_H_

#include "deploy/flags/flags.h"

namespace tethys {

// --secrets, for the verbs that read data.
FlagSpec SecretsFlag();

// Sets where the secrets come from when the first URL is opened: the file of --secrets, else `secrets` beside
// the file of --hostfile, else ~/.config/tethys/secrets. Without such a file there are no secrets.
void UseSecretsOf(const Flags& flags);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_DATA_SECRETS_H_
