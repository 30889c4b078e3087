#include "runtime/cluster/job_secret.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tethys {

namespace {

constexpr absl::string_view kDataSecrets = "data=";

}  // namespace

std::string SecretLine(const JobSecret& secret) {
  std::string line = absl::StrCat(secret.token.ToHex(), " ", secret.job_id);
  if (secret.tls.has_value()) {
    for (const std::string* pem : {&secret.tls->authority, &secret.tls->certificate, &secret.tls->key}) {
      absl::StrAppend(&line, " ", absl::Base64Escape(*pem));
    }
  }
  if (!secret.data_secrets.empty()) {
    absl::StrAppend(&line, " ", kDataSecrets, absl::Base64Escape(secret.data_secrets));
  }
  return line;
}

absl::StatusOr<JobSecret> ParseSecretLine(absl::string_view line) {
  std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  JobSecret secret;
  if (absl::string_view data = words.back(); words.size() > 2 && absl::ConsumePrefix(&data, kDataSecrets)) {
    if (!absl::Base64Unescape(data, &secret.data_secrets)) {
      return absl::InvalidArgumentError("the secrets for data are not base64");
    }
    words.pop_back();
  }
  const bool bare = words.size() == 2;
  if ((!bare && words.size() != 5) || words[1].empty()) {
    return absl::InvalidArgumentError(
        "a secret is TOKEN JOB_ID, followed by AUTHORITY CERTIFICATE KEY under TLS");
  }
  TETHYS_ASSIGN_OR_RETURN(secret.token, JobToken::FromHex(words[0]));
  secret.job_id = std::string(words[1]);
  if (bare) return secret;
  TlsIdentity identity;
  if (!absl::Base64Unescape(words[2], &identity.authority) ||
      !absl::Base64Unescape(words[3], &identity.certificate) ||
      !absl::Base64Unescape(words[4], &identity.key)) {
    return absl::InvalidArgumentError("the certificates after TOKEN JOB_ID are not base64");
  }
  const absl::Status sound = CheckIdentity(identity);
  if (absl::IsInvalidArgument(sound)) return absl::DataLossError(sound.message());
  TETHYS_RETURN_IF_ERROR(sound);
  secret.tls = std::move(identity);
  return secret;
}

}  // namespace tethys
