// The secrets for data on other machines (proto/remote_secrets.proto), for the verbs that read data.
#ifndef TETHYS_DEPLOY_FLAGS_DATA_SECRETS_H_
#define TETHYS_DEPLOY_FLAGS_DATA_SECRETS_H_

#include "deploy/flags/flags.h"

namespace tethys {

// The flag --secrets, for the verbs that read data.
FlagSpec SecretsFlag();

// Chooses the file from which the secrets are read when the first URL is opened: the file of --secrets, else
// the file `secrets` beside the file of --hostfile, else ~/.config/tethys/secrets. Without --secrets, a
// missing file means that there are no secrets.
void UseSecretsOf(const Flags& flags);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FLAGS_DATA_SECRETS_H_
