#include "deploy/run/secret_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "runtime/base/file.h"
#include "runtime/base/private_file.h"

namespace tethys {
namespace {

constexpr char kForm[] = "TOKEN JOB_ID, 32 hexadecimal digits and a word, as `tethys token` prints them";

// Reads the first line of `fd`. InvalidArgument: the line is not a secret; callers add to the message how the
// line must look. The messages of other errors, such as a wrong clock, name their own remedies.
absl::StatusOr<JobSecret> ReadSecretLine(int fd) {
  std::string line;
  char c = 0;
  while (line.size() < kMaxSecretLine) {
    const ssize_t got = read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || c == '\n') break;
    line += c;
  }
  if (c != '\n') return absl::InvalidArgumentError("the line with the secret has no end");
  return ParseSecretLine(line);
}

}  // namespace

absl::StatusOr<JobSecret> ReadSecret(int fd) {
  const absl::StatusOr<JobSecret> secret = ReadSecretLine(fd);
  if (!absl::IsInvalidArgument(secret.status())) return secret;
  return absl::InvalidArgumentError(absl::StrCat(secret.status().message(),
                                                 ": the first line on standard input must be TOKEN JOB_ID, "
                                                 "as a launcher such as tethys train writes it; "
                                                 "or name a file with this line by --token_file"));
}

absl::StatusOr<JobSecret> ReadSecretFile(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenPrivateFile(path, "the job's token"));
  const absl::StatusOr<JobSecret> secret = ReadSecretLine(fd.get());
  if (!absl::IsInvalidArgument(secret.status())) return secret;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", secret.status().message(),
                                                 "; the first line of this file must be ", kForm,
                                                 ", for example by: (umask 077; tethys token > ", path, ")"));
}

absl::StatusOr<JobSecret> TakeScheduledSecret(const Flags& flags) {
  const char* value = std::getenv(kTokenVariable);
  const std::string line(absl::StripAsciiWhitespace(value == nullptr ? "" : value));
  unsetenv(kTokenVariable);
  if (flags.Has("token_file")) return ReadSecretFile(flags.Get("token_file"));
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from needs the job's token, the same on every machine: --token_file=FILE, or ",
                     kTokenVariable, " in the environment; its form is ", kForm));
  }
  const absl::StatusOr<JobSecret> secret = ParseSecretLine(line);
  if (!absl::IsInvalidArgument(secret.status())) return secret;
  return absl::InvalidArgumentError(absl::StrCat(kTokenVariable, ": ", secret.status().message(),
                                                 "; the value of this variable must be ", kForm));
}

absl::StatusOr<std::string> NewSecretLine(const std::string& name) {
  constexpr size_t kMaxNameBytes = 200;
  const bool word = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
  });
  if (!word || name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name, "' is no name for a run: write letters, digits, hyphens, points and underscores"));
  }
  const std::string job_id = absl::StrFormat("%s-%08x", name, RandomNonce() & 0xffffffff);
  return SecretLine({.token = JobToken::Random(), .job_id = job_id});
}

FlagSpec TokenFileFlag() {
  return {
      .name = "token_file",
      .value = "FILE",
      .help =
          "The file with the line TOKEN JOB_ID, which `tethys token` prints, the same for all processes of a "
          "job; only its owner may read it (mode 0600). Without --token_file, the line is read from standard "
          "input or, with `tethys train --from`, from the environment variable TETHYS_TOKEN.",
      .is_input = true};
}

}  // namespace tethys
