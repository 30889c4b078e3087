#include "tests/testing/killed_process.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys::testing {
namespace {

constexpr int kCallStop = SIGTRAP | 0x80;  // The signal of a stop at a system call (PTRACE_O_TRACESYSGOOD).
constexpr int kNotTraced = 77;

// Files that a process has written to and not synced since. They are held open, so that they can be found
// after a rename.
class UnsyncedFiles {
 public:
  explicit UnsyncedFiles(pid_t process) : process_(process) {}

  // Called before each system call of the process.
  void Watch() {
    __ptrace_syscall_info info = {};
    ptrace(PTRACE_GET_SYSCALL_INFO, process_, sizeof(info), &info);
    const bool syncs = info.entry.nr == SYS_fsync || info.entry.nr == SYS_fdatasync;
    const bool writes = info.entry.nr == SYS_write || info.entry.nr == SYS_pwrite64 ||
                        info.entry.nr == SYS_fallocate || info.entry.nr == SYS_ftruncate;
    if (!syncs && !writes) return;
    const std::string path = absl::StrCat("/proc/", process_, "/fd/", info.entry.args[0]);
    struct stat file;
    if (stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return;
    if (syncs) {
      files_.erase(file.st_ino);
    } else {
      files_.emplace(file.st_ino, FileDescriptor(open(path.c_str(), O_WRONLY | O_CLOEXEC)));
    }
  }

  void LoseHalf() const {
    for (const auto& [inode, fd] : files_) {
      struct stat file;
      TETHYS_CHECK(fstat(fd.get(), &file) == 0 && ftruncate(fd.get(), file.st_size / 2) == 0);
    }
  }

 private:
  const pid_t process_;
  std::map<ino_t, FileDescriptor> files_;
};

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) TETHYS_CHECK(errno == EINTR, std::strerror(errno));
  return status;
}

void Kill(pid_t child) {
  kill(child, SIGKILL);
  WaitFor(child);
}

// Runs `body` in a child process, which stops once before `body` begins. The child's exit status is 0 if
// `body` returns true.
pid_t Fork(const std::function<bool()>& body) {
  const pid_t child = fork();
  TETHYS_CHECK(child >= 0, std::strerror(errno));
  if (child > 0) return child;
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotTraced);
  raise(SIGSTOP);
  _exit(body() ? 0 : 1);
}

}  // namespace

ProcessEnd RunKilledBefore(int call, Crash crash, const std::function<bool()>& body) {
  const pid_t child = Fork(body);
  int status = WaitFor(child);
  TETHYS_CHECK(WIFSTOPPED(status), "the process was not traced: ", status);
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);

  UnsyncedFiles unsynced(child);
  int signal = 0;
  for (int stops = 0; WIFSTOPPED(status);) {
    ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    status = WaitFor(child);
    if (!WIFSTOPPED(status)) break;
    const bool at_call = WSTOPSIG(status) == kCallStop;
    signal = at_call ? 0 : WSTOPSIG(status);
    if (!at_call || stops++ % 2 != 0) continue;  // The child stops before each call and after it.
    if (stops / 2 == call) {
      Kill(child);
      if (crash == Crash::kPowerCut) unsynced.LoseHalf();
      return ProcessEnd::kKilled;
    }
    unsynced.Watch();
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ProcessEnd::kFinished : ProcessEnd::kFailed;
}

std::string WhyNotTraced() {
  const pid_t child = Fork([] { return true; });
  if (!WIFSTOPPED(WaitFor(child))) return "needs ptrace, which is forbidden here";
  Kill(child);
  return "";
}

}  // namespace tethys::testing
