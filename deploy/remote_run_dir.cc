#include "deploy/remote_run_dir.h"

#include <unistd.h>

#include <climits>
#include <functional>
#include <vector>

#include "absl/strings/str_format.h"
#include "deploy/ssh.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

constexpr Nanoseconds kDeadline = 600 * kSecond;

// Logs are written here all along; what begins with a dot is this machine's, the packed directory included.
constexpr char kPack[] = "tar --exclude=./log --exclude='./.*' -cf - -C ";
constexpr char kPackedName[] = "/.transfer.tar";

// Runs `words`, with their output in the file `path`.
RemoteCommand Into(const std::string& path, const std::vector<std::string>& words,
                   const std::string& command) {
  RemoteCommand into{.ssh = {"sh", "-c", "out=$0; exec \"$@\" > \"$out\"", path}, .command = command};
  into.ssh.insert(into.ssh.end(), words.begin(), words.end());
  return into;
}

absl::Status Run(const RemoteCommand& command, const std::string& scratch) {
  return RunEverywhere({command}, kDeadline, scratch)[0].status;
}

absl::Status Send(const Place& place, const std::string& run_dir, const std::string& packed) {
  const std::string there = ShellQuote(ChiefRunDir(place, run_dir));
  TETHYS_RETURN_IF_ERROR(
      Run(Into(packed, {"sh", "-c", absl::StrCat(kPack, ShellQuote(run_dir), " .")}, ""), run_dir));
  return Run({.ssh = place.ssh,
              .command = absl::StrCat("rm -rf ", there, " && mkdir -p ", there, " && tar -xf - -C ", there),
              .input_path = packed},
             run_dir);
}

absl::Status Fetch(const Place& place, const std::string& run_dir, const std::string& packed) {
  const std::string there = ShellQuote(ChiefRunDir(place, run_dir));
  const std::string pack =
      absl::StrCat("if test -d ", there, "; then ", kPack, there, " .; else tar -cf - -T /dev/null; fi");
  TETHYS_RETURN_IF_ERROR(Run(Into(packed, place.ssh, pack), run_dir));
  TETHYS_RETURN_IF_ERROR(Run({.ssh = {"tar", "-xf", packed, "-C", run_dir}}, run_dir));
  return Run({.ssh = place.ssh, .command = "rm -rf " + there}, run_dir);
}

}  // namespace

std::string ChiefRunDir(const Place& place, const std::string& run_dir) {
  if (place.ssh.empty()) return run_dir;
  // One for each run directory of each machine and user, so that an attempt which was cut off is found again.
  char absolute[PATH_MAX];
  const std::string path = realpath(run_dir.c_str(), absolute) != nullptr ? absolute : run_dir;
  const size_t key = std::hash<std::string>()(absl::StrCat(HostName(), ":", getuid(), ":", path));
  return absl::StrCat(place.folder, "/runs/", path.substr(path.rfind('/') + 1),
                      absl::StrFormat("-%016x", key));
}

absl::Status SendRunDir(const Place& place, const std::string& run_dir) {
  if (place.ssh.empty()) return absl::OkStatus();
  const std::string packed = run_dir + kPackedName;
  const absl::Status status = Send(place, run_dir, packed);
  unlink(packed.c_str());
  return Annotate(status, absl::StrCat("cannot send the job to the chief's host ", place.host));
}

absl::Status FetchRunDir(const Place& place, const std::string& run_dir) {
  if (place.ssh.empty()) return absl::OkStatus();
  const std::string packed = run_dir + kPackedName;
  const absl::Status status = Fetch(place, run_dir, packed);
  unlink(packed.c_str());
  return Annotate(
      status, absl::StrCat("cannot fetch the results from ", place.host, ":", ChiefRunDir(place, run_dir)));
}

}  // namespace tethys
