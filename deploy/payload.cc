#include "deploy/payload.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "deploy/place.h"
#include "deploy/ssh.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

constexpr Nanoseconds kPackDeadline = 120 * kSecond;
// Unpacked, a bundle is about four times as large.
constexpr double kUnpackedRatio = 4;
constexpr char kBundleName[] = "tethys-bundle.tar.xz";

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// The folder of the bundle that `program` is the start script of, with a slash; empty: it is no such script.
std::string UnpackedBundle(const std::string& program) {
  const std::string folder = FolderOf(program);
  return FileExists(folder + "lib/tethys") ? folder : "";
}

// Fast rather than small: it is sent once.
absl::Status Pack(const std::string& folder, const std::string& path) {
  const std::string command = absl::StrCat("XZ_OPT=-1 exec tar --owner=0 --group=0 -cJf ", ShellQuote(path),
                                           " -C ", ShellQuote(folder), " tethys lib");
  return Annotate(
      RunEverywhere({{.ssh = {"sh", "-c"}, .command = command}}, kPackDeadline, FolderOf(path))[0].status,
      absl::StrCat("cannot pack the bundle in ", folder, " again"));
}

// Where the file behind the link `program` lies; the folder of `program` itself where it is none.
std::string InstalledIn(const std::string& program) {
  char target[4096];
  const ssize_t length = readlink(program.c_str(), target, sizeof(target));
  return FolderOf(length > 0 ? std::string(target, static_cast<size_t>(length)) : program);
}

// Where the payload is when nobody names one, made if need be.
absl::StatusOr<Payload> DefaultPayload(const std::string& program, const std::string& scratch) {
  const std::string beside = InstalledIn(program) + kBundleName;
  if (FileExists(beside)) return Payload{.path = beside, .packed = true};
  const std::string unpacked = UnpackedBundle(program);
  if (unpacked.empty()) return Payload{.path = program, .packed = false};
  const std::string packed = absl::StrCat(scratch, "/", kBundleName);
  TETHYS_RETURN_IF_ERROR(Pack(unpacked, packed));
  return Payload{.path = packed, .packed = true};
}

}  // namespace

absl::StatusOr<Payload> FindPayload(const std::string& program, const std::string& bundle,
                                    const std::string& scratch) {
  Payload payload{.path = bundle, .packed = true};
  if (bundle.empty()) {
    TETHYS_ASSIGN_OR_RETURN(payload, DefaultPayload(program, scratch));
  }
  struct stat info;
  if (stat(payload.path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("the bundle ", payload.path, " (deploy/bundle.sh makes it)"));
  }
  payload.installed_kib = static_cast<double>(info.st_size) / 1024 * (payload.packed ? kUnpackedRatio : 1);
  return payload;
}

}  // namespace tethys
