#include "deploy/launcher/run_stop.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/lock_holder.h"
#include "deploy/launcher/run_directory.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

absl::Status NotRunning(const std::string& run_dir, const absl::optional<LauncherName>& named) {
  std::string text = absl::StrCat(run_dir, " is not running");
  // A launcher that ends normally removes its name. So a launcher that is still named was killed, or it runs
  // on a machine whose locks are not visible here.
  if (named.has_value() && named->boot_id != BootId()) {
    absl::StrAppend(
        &text, " as far as ", HostName(), " can see: process ", named->process, " on ", named->host,
        " was the last launcher of the run; if this process was killed, there is nothing to stop; if "
        "it still runs (the file system may not share locks), stop the run on ",
        named->host);
  }
  return absl::FailedPreconditionError(text);
}

// A descriptor of the process; not valid if there is no such process now.
FileDescriptor OpenProcess(int64_t process) {
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0u)));
}

}  // namespace

absl::optional<RunningLauncher> RunningLauncher::FindByLock(const std::string& run_dir) {
  const std::string file = RunDirectory::LockFile(run_dir);
  const absl::optional<int64_t> holder = LockHolder(file);
  if (!holder.has_value()) return absl::nullopt;
  FileDescriptor process = OpenProcess(*holder);
  const absl::optional<int64_t> start = ProcessStart(*holder);
  const absl::StatusOr<std::string> status = ReadFile(absl::StrCat("/proc/", *holder, "/status"));
  if (!process.valid() || !start.has_value() || !status.ok() || !TakesTermination(*status))
    return absl::nullopt;
  // Compares again now that the descriptor is open, because the process number may have been reused before it
  // was opened.
  if (LockHolder(file) != holder || ProcessStart(*holder) != start) return absl::nullopt;
  return RunningLauncher({.process = *holder, .start = *start, .boot_id = BootId(), .host = HostName()},
                         std::move(process));
}

absl::StatusOr<RunningLauncher> RunningLauncher::Find(const std::string& run_dir) {
  if (!FileExists(run_dir + "/job.textproto")) {
    return absl::NotFoundError(absl::StrCat(run_dir, " contains no run: there is no job.textproto in it"));
  }
  TETHYS_ASSIGN_OR_RETURN(const bool in_use, RunDirectory::InUse(run_dir));
  const absl::StatusOr<absl::optional<LauncherName>> named = RunDirectory::Launcher(run_dir);
  if (in_use && (!named.ok() || !named->has_value())) {
    if (absl::optional<RunningLauncher> found = FindByLock(run_dir); found.has_value())
      return *std::move(found);
  }
  TETHYS_RETURN_IF_ERROR(named.status());
  const absl::optional<LauncherName>& name = *named;
  if (!in_use) return NotRunning(run_dir, name);
  if (!name.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(run_dir,
                     " is in use by a process that has not begun the run yet, or that is not visible from "
                     "this machine: try again in a moment, or press Ctrl-C where that process runs"));
  }
  const std::string launcher = absl::StrCat("process ", name->process, " on ", name->host);
  if (name->boot_id != BootId()) {
    return absl::FailedPreconditionError(
        absl::StrCat(launcher, " makes the run in ", run_dir, ": stop the run on ", name->host));
  }
  FileDescriptor process = OpenProcess(name->process);
  if (!process.valid() && errno != ESRCH) {
    return ErrnoStatus(errno, absl::StrCat("cannot open ", launcher, ", which makes the run in ", run_dir,
                                           " (send it SIGTERM by hand)"));
  }
  // The descriptor is opened first, because it stays bound to the process even if the number is reused later.
  if (!process.valid() || ProcessStart(name->process) != name->start) {
    return absl::FailedPreconditionError(absl::StrCat(
        launcher, " makes the run in ", run_dir,
        ", but is not visible from here: stop the run in the container in which this process runs"));
  }
  return RunningLauncher(*name, std::move(process));
}

absl::Status RunningLauncher::AskToStop() const {
  if (syscall(SYS_pidfd_send_signal, process_.get(), SIGTERM, nullptr, 0u) == 0 || errno == ESRCH) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, absl::StrCat("cannot ask process ", name_.process, " to stop"));
}

absl::StatusOr<bool> RunningLauncher::WaitForEnd(Nanoseconds limit) const {
  const MonotonicClock clock;
  const Nanoseconds deadline = clock.Now() + limit;
  while (true) {
    const Nanoseconds left = std::max<Nanoseconds>(deadline - clock.Now(), 0);
    pollfd ended = {process_.get(), POLLIN, 0};
    const int got = poll(&ended, 1,
                         static_cast<int>(std::min<Nanoseconds>((left + kMillisecond - 1) / kMillisecond,
                                                                std::numeric_limits<int>::max())));
    if (got > 0) return true;
    if (got < 0 && errno != EINTR)
      return ErrnoStatus(errno, absl::StrCat("cannot wait for process ", name_.process));
    if (left == 0) return false;
  }
}

}  // namespace tethys
