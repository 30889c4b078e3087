// The secrets for data on other machines (proto/remote_secrets.proto), for the verbs that read data.
#ifndef TETHYS_DEPLOY_COMMAND_DATA_SECRETS_H_
#define TETHYS_DEPLOY_COMMAND_DATA_SECRETS_H_

#include "deploy/command/flags.h"

namespace tethys {

// --secrets, for the verbs that read data.
FlagSpec SecretsFlag();

// Has the secrets read when the first URL is opened: from the file of --secrets, else from `secrets` beside
// the file of --hostfile, else from ~/.config/tethys/secrets. Without such a file there are none.
void UseSecretsOf(const Flags& flags);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_DATA_SECRETS_H_
