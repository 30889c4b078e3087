#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "deploy/command/verbs.h"
#include "deploy/flags/metrics_flags.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/launcher/run_ending.h"
#include "deploy/live/live_server.h"
#include "deploy/process/signal_source.h"
#include "runtime/base/file.h"
#include "runtime/cluster/handshake.h"
#include "runtime/job/job_file.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr char kDescription[] =
    "Serves a live page of a run on this machine, while the run goes on and after it: loss, accuracy, "
    "throughput, and a row per worker. Open the printed address, which is in RUN_DIR/watch.url, too. "
    "/metrics has the same figures for Prometheus (OpenMetrics), with the token in the address as the "
    "bearer token.\n\nThe page is served on 127.0.0.1 only. To open it on another machine, run ssh -L "
    "PORT:127.0.0.1:PORT HOST there. For a Prometheus on another machine, --metrics_address serves /metrics "
    "only. Ctrl-C ends the command.";

// The live view runs at low priority, so that it takes no CPU from the training run.
constexpr int kNiceness = 10;

// The file with the address of the view. It exists while the view is served, and only its owner may read it.
class AddressFile {
 public:
  static absl::StatusOr<AddressFile> Create(const std::string& path, const std::string& address) {
    unlink(path.c_str());  // A view that was killed may have left its file.
    const FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.valid()) return ErrnoStatus(errno, path);
    struct stat found;
    if (fstat(fd.get(), &found) != 0) return ErrnoStatus(errno, path);
    AddressFile file(path, found.st_ino);
    const std::string line = address + "\n";
    TETHYS_RETURN_IF_ERROR(WriteFully(fd.get(), line.data(), static_cast<int64_t>(line.size()), path));
    return file;
  }
  // Removes the file, unless a later view has replaced it.
  void Remove() const {
    struct stat found;
    if (lstat(path_.c_str(), &found) == 0 && found.st_ino == inode_) unlink(path_.c_str());
  }

 private:
  AddressFile(std::string path, ino_t inode) : path_(std::move(path)), inode_(inode) {}
  std::string path_;
  ino_t inode_;
};

// Finds how the run ended if its launcher ended without writing a final event; nullopt if the run is still
// running. A run with recent events counts as running even if its directory seems not to be locked, because
// locks held on other machines are not always visible.
absl::optional<LeftRun> FindLeft(const std::string& run_dir) {
  constexpr int64_t kQuietSeconds = 10;  // The chief of a running job reports about once a second.
  struct stat facts;
  const std::string events = absl::StrCat(run_dir, "/", kProgressFile);
  if (stat(events.c_str(), &facts) == 0 && std::time(nullptr) - facts.st_mtime < kQuietSeconds)
    return absl::nullopt;
  const absl::StatusOr<bool> in_use = RunDirectory::InUse(run_dir);
  if (!in_use.ok() || *in_use) return absl::nullopt;
  const absl::StatusOr<proto::RunSummary> summary = ReadSummary(run_dir);
  const RunEnding ending =
      EndingOf(run_dir, summary.ok() ? absl::optional<proto::RunSummary>(*summary) : absl::nullopt);
  if (ending.text.empty()) return absl::nullopt;
  return LeftRun{ending.text, ending.go_on};
}

absl::StatusOr<std::unique_ptr<LiveServer>> Prepare(const Flags& flags, const std::string& token) {
  if (flags.arguments().empty())
    return absl::InvalidArgumentError("RUN_DIR is missing, for example: tethys watch runs/NAME");
  const std::string run_dir = flags.arguments()[0];
  LiveServerOptions options{
      .run_dir = run_dir, .token = token, .find_left = [run_dir] { return FindLeft(run_dir); }};
  TETHYS_ASSIGN_OR_RETURN(const int64_t port, flags.GetInteger("port", 0, 0, 65535));
  options.port = static_cast<int>(port);
  TETHYS_RETURN_IF_ERROR(ReadMetricsFlags(flags, options));
  TETHYS_RETURN_IF_ERROR(CheckWatchable(options.run_dir));
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadRunJob(options.run_dir + "/job.textproto", {}));
  options.job = job.name();
  return LiveServer::Create(options);
}

int Watch(const Flags& flags) {
  const std::string token = JobToken::Random().ToHex();
  const absl::StatusOr<std::unique_ptr<LiveServer>> server = Prepare(flags, token);
  if (!server.ok()) return Fail("watch", server.status(), kExitBadRequest);
  setpriority(PRIO_PROCESS, 0, kNiceness);
  const SignalSource signals;  // Created before the address file, because an interrupt must remove that file.
  const std::string address = absl::StrCat("http://127.0.0.1:", (*server)->port(), "/?token=", token);
  const absl::StatusOr<AddressFile> file = AddressFile::Create(flags.arguments()[0] + "/watch.url", address);
  if (!file.ok())
    std::fprintf(stderr, "tethys watch: cannot write a file with the address: %s\n",
                 StatusText(file.status()).c_str());
  std::string lines = absl::StrCat("live view: ", address, "\n");
  if (const auto& metrics = (*server)->metrics_address(); metrics.has_value()) {
    absl::StrAppend(&lines, "metrics: http://", HostPortText(*metrics), "/metrics, with the token in ",
                    flags.Get("metrics_token_file"), "\n");
  }
  std::fputs(lines.c_str(), stdout);
  std::fflush(stdout);
  const absl::Status served = (*server)->Serve(signals.fd());
  if (file.ok()) file->Remove();
  return served.ok() ? kExitSuccess : Fail("watch", served, kExitFailed);
}

}  // namespace

Command WatchCommand() {
  return {{.verb = "watch",
           .summary = "Serves a live page of a run.",
           .description = kDescription,
           .argument = "RUN_DIR",
           .flags = WithMetricsFlags(
               {{.name = "port", .value = "PORT", .help = "Port on 127.0.0.1. Default: a free one."}}),
           .examples = {"tethys watch runs/fashion_mnist_ps_sync-20261121-123456"}},
          Watch};
}

}  // namespace tethys
