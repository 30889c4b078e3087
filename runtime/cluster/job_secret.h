// The secret that a launcher gives to a process, as one line of text on its standard input:
//
//   TOKEN JOB_ID                              token: 32 hexadecimal digits
//   TOKEN JOB_ID AUTHORITY CERTIFICATE KEY    PEM in base64: connections under mutual TLS
//
// At the end of the line come the secrets for data on other machines, if there are any: data=SECRETS, in
// base64.
//
// Written by launchers, read by role processes. Pure.
#ifndef TETHYS_RUNTIME_CLUSTER_JOB_SECRET_H_
#define TETHYS_RUNTIME_CLUSTER_JOB_SECRET_H_

#include <string>

#include "absl/types/optional.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct JobSecret {
  JobToken token;
  std::string job_id;
  absl::optional<TlsIdentity> tls = {};  // The TLS identity of the process.
  std::string data_secrets = {};         // A message RemoteSecrets in wire format; empty: none.
};

// The longest line, in bytes, that is accepted. A line with certificates takes about 2,000 bytes.
inline constexpr size_t kMaxSecretLine = 16 * 1024;

// The line for a secret, without its line end.
std::string SecretLine(const JobSecret& secret);
// Parses a line. InvalidArgument: the line does not have this form; the error never quotes the line.
// DataLoss: the identity is damaged. FailedPrecondition: the identity is not valid now (CheckIdentity).
absl::StatusOr<JobSecret> ParseSecretLine(absl::string_view line);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_JOB_SECRET_H_
