#include "deploy/hosts/payload.h"

#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "deploy/hosts/bundle_script.h"
#include "deploy/process/remote_shell.h"
#include "deploy/process/ssh.h"
#include "runtime/base/file.h"
#include "runtime/base/home_folder.h"

namespace tethys {
namespace {

constexpr Nanoseconds kPackDeadline = 600 * kSecond;
// An unpacked bundle is about three times as large as the file; this ratio leaves a margin.
constexpr double kUnpackedRatio = 3.5;
constexpr char kBundleName[] = "tethys-bundle.tar.gz";

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// The folder of the unpacked bundle whose start script is `program`, ending in a slash; empty if `program` is
// no such script.
std::string UnpackedBundle(const std::string& program) {
  const std::string folder = FolderOf(program);
  return FileExists(folder + "lib/tethys") ? folder : "";
}

// The folder of the file to which the symbolic link `program` leads. If `program` is no link, the folder of
// `program`.
std::string InstalledIn(const std::string& program) {
  char target[4096];
  const ssize_t length = readlink(program.c_str(), target, sizeof(target));
  return FolderOf(length > 0 ? std::string(target, static_cast<size_t>(length)) : program);
}

class PayloadFinder {
 public:
  explicit PayloadFinder(const PayloadOptions& options) : options_(options) {}

  absl::StatusOr<std::string> Find() {
    if (!options_.bundle.empty()) {
      TETHYS_RETURN_IF_ERROR(CheckNamed(options_.bundle));
      return options_.bundle;
    }
    const std::string folder = InstalledIn(options_.program);
    const std::string beside = folder + kBundleName;
    if (FileExists(beside) && HoldsBuild(beside)) return beside;
    const std::string unpacked = UnpackedBundle(options_.program);
    const bool keep = unpacked.empty() && access(folder.c_str(), W_OK) == 0;
    const std::string path = keep ? beside : CachedPath();
    if (!keep && FileExists(path) && HoldsBuild(path)) {
      utime(path.c_str(), nullptr);
      return path;
    }
    TETHYS_RETURN_IF_ERROR(unpacked.empty() ? Make(path, folder) : Pack(unpacked, path));
    return path;
  }

 private:
  // The place of a bundle that cannot be kept beside the program: in `cache` or, if that folder cannot be
  // written, in `scratch`. Removes bundles from the cache that were not used for a month.
  std::string CachedPath() const {
    const std::string in_scratch = absl::StrCat(options_.scratch, "/", kBundleName);
    const std::string& cache = options_.cache;
    if (cache.empty() || !CreateDirectories(cache).ok() || access(cache.c_str(), W_OK) != 0)
      return in_scratch;
    Run({.ssh = {"find", cache, "-maxdepth", "1", "-name", "*.tar.gz*", "-mtime", "+30", "-delete"}});
    return absl::StrCat(cache, "/", options_.build, ".tar.gz");
  }

  RemoteResult Run(const RemoteCommand& command) const {
    return RunEverywhere({command}, kPackDeadline, options_.scratch)[0];
  }

  // True if the bundle is of this build. The first member of a bundle contains the build id.
  bool HoldsBuild(const std::string& path) const {
    const RemoteResult said = Run({.ssh = {"tar", "--occurrence=1", "-xzOf", path, "build"}});
    return said.status.ok() && absl::StrContains(said.output, options_.build);
  }

  absl::Status CheckNamed(const std::string& path) const {
    if (!FileExists(path)) return absl::NotFoundError(absl::StrCat("there is no bundle ", path, kRemedy));
    if (HoldsBuild(path)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no bundle of this build (", options_.build, ")", kRemedy));
  }

  absl::Status Make(const std::string& path, const std::string& folder) const {
    options_.note(
        absl::StrCat("making the bundle ", path, ": this program with its libraries, for other machines"));
    const std::string script = options_.scratch + "/bundle.sh";
    TETHYS_RETURN_IF_ERROR(WriteFileAtomically(script, BundleScript()));
    // Replaces /proc/self/ by /proc/PID/ in the path, so that other processes can use the path.
    const std::string program =
        absl::StrReplaceAll(options_.program, {{"/proc/self/", absl::StrCat("/proc/", getpid(), "/")}});
    return Annotate(Run({.ssh = {"bash", script, program, path, folder}}).status,
                    "cannot make the bundle that other machines need (make the bundle with deploy/bundle.sh "
                    "on a machine that has bash, ldd, tar and gzip, and name it by --bundle)");
  }

  // Compresses fast rather than well, because the file travels to few machines. Other processes may pack the
  // same bundle, so each writes a file of its own first.
  absl::Status Pack(const std::string& folder, const std::string& path) const {
    const std::string part = absl::StrCat(path, ".part-", getpid());
    const std::string command = absl::StrCat("tar --owner=0 --group=0 -cf - -C ", ShellQuote(folder),
                                             " build tethys lib share | gzip -1 > ", ShellQuote(part),
                                             " && mv ", ShellQuote(part), " ", ShellQuote(path));
    return Annotate(Run({.ssh = {"bash", "-o", "pipefail", "-c", command}}).status,
                    absl::StrCat("cannot make an archive of the bundle in ", folder));
  }

  static constexpr char kRemedy[] =
      ": leave --bundle out, so that a new bundle is made, or make this bundle again by deploy/bundle.sh";
  const PayloadOptions& options_;
};

}  // namespace

std::string BundleCache() {
  const absl::StatusOr<std::string> home = HomeFolder();
  return home.ok() ? *home + "/.cache/tethys/bundles" : "";
}

absl::StatusOr<Payload> FindPayload(const PayloadOptions& options) {
  TETHYS_ASSIGN_OR_RETURN(const std::string path, PayloadFinder(options).Find());
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot examine ", path));
  return Payload{.path = path, .installed_bytes = static_cast<int64_t>(info.st_size * kUnpackedRatio)};
}

}  // namespace tethys
