#include "deploy/live/metrics_token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

constexpr size_t kLeastLetters = 16;
constexpr size_t kMostLetters = 256;

bool IsTokenLetter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._~+/=", c);
}

}  // namespace

absl::StatusOr<std::string> ReadMetricsToken(const std::string& path) {
  // O_NONBLOCK: the name may be that of a pipe, whose opening would wait for a writer.
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open the token file ", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot examine ", path));
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s has mode %04o: others could read the token; chmod 600 %s", path, info.st_mode & 07777, path));
  }
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " belongs to another user, who knows the token: make a file of your own"));
  }
  char bytes[kMostLetters + 1];
  ssize_t got = 0;
  do {
    got = read(fd.get(), bytes, sizeof(bytes));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
  const absl::string_view text(bytes, static_cast<size_t>(got));
  const absl::string_view line = text.substr(0, text.find('\n'));
  if (line.size() >= kLeastLetters && line.size() <= kMostLetters && absl::c_all_of(line, IsTokenLetter)) {
    return std::string(line);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the first line must be a token of ", kLeastLetters, " to ", kMostLetters,
      " letters, digits and -._~+/=, for example by: (umask 077; openssl rand -hex 16 > ", path, ")"));
}

}  // namespace tethys
