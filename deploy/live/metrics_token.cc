#include "deploy/live/metrics_token.h"

#include <unistd.h>

#include <cerrno>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/private_file.h"
#include "runtime/base/text_encoding.h"

namespace tethys {
namespace {

constexpr size_t kLeastLetters = 16;
constexpr size_t kMostLetters = 256;

bool IsTokenLetter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._~+/=", c);
}

}  // namespace

absl::StatusOr<std::string> ReadMetricsToken(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenPrivateFile(path, "the token"));
  char bytes[kMostLetters + 1];
  ssize_t got = 0;
  do {
    got = read(fd.get(), bytes, sizeof(bytes));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view text,
                          WithoutByteOrderMark({bytes, static_cast<size_t>(got)}, path));
  const absl::string_view line = absl::StripSuffix(text.substr(0, text.find('\n')), "\r");
  if (line.size() >= kLeastLetters && line.size() <= kMostLetters && absl::c_all_of(line, IsTokenLetter)) {
    return std::string(line);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the first line must be a token of ", kLeastLetters, " to ", kMostLetters,
      " letters, digits and -._~+/=; make such a file, for example, by: (umask 077; openssl rand -hex 16 > ",
      path, ")"));
}

}  // namespace tethys
