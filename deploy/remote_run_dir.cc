#include "deploy/remote_run_dir.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <functional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/ssh.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

constexpr Nanoseconds kDeadline = 600 * kSecond;

// Logs are written here all along, and the lock is this machine's.
constexpr char kTar[] = "tar --exclude=./log --exclude='./.*' -cf - -C ";

// `command` of this machine's shell; its failure is one of any part of a pipe.
absl::Status RunHere(const std::string& command, const std::string& scratch) {
  return RunEverywhere({{.ssh = {"bash", "-c", "set -o pipefail; " + command}}}, kDeadline, scratch)[0]
      .status;
}

std::string SshWords(const Place& place, const std::string& command) {
  const std::string words = absl::StrJoin(
      place.ssh, " ", [](std::string* out, const std::string& word) { out->append(ShellQuote(word)); });
  return absl::StrCat(words, " ", ShellQuote(absl::StrCat("exec sh -c ", ShellQuote(command))));
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
  const std::string there = ShellQuote(ChiefRunDir(place, run_dir));
  const std::string unpack =
      absl::StrCat("rm -rf ", there, " && mkdir -p ", there, " && tar -xf - -C ", there);
  return Annotate(RunHere(absl::StrCat(kTar, ShellQuote(run_dir), " . | ", SshWords(place, unpack)), run_dir),
                  absl::StrCat("cannot send the job to the chief's host ", place.host));
}

absl::Status FetchRunDir(const Place& place, const std::string& run_dir) {
  if (place.ssh.empty()) return absl::OkStatus();
  const std::string path = ChiefRunDir(place, run_dir);
  const std::string pack = absl::StrCat(kTar, ShellQuote(path), " .");
  absl::Status status =
      RunHere(absl::StrCat(SshWords(place, pack), " | tar -xf - -C ", ShellQuote(run_dir)), run_dir);
  if (status.ok()) status = RunHere(SshWords(place, "rm -rf " + ShellQuote(path)), run_dir);
  return Annotate(status, absl::StrCat("cannot fetch the results from ", place.host, ":", path));
}

}  // namespace tethys
