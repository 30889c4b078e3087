// Input: the line by which a launcher gives a process the job's token and, under TLS, its certificates.
#include "runtime/cluster/job_secret.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzSecret(absl::string_view input) {
  const absl::StatusOr<JobSecret> secret = ParseSecretLine(input);
  if (!secret.ok()) return Require(!secret.status().message().empty(), "a refusal says why");
  const absl::StatusOr<JobSecret> again = ParseSecretLine(SecretLine(*secret));
  Require(again.ok() && SecretLine(*again) == SecretLine(*secret),
          "what was accepted means the same when written again");
}

}  // namespace tethys::fuzz
