#include "deploy/launcher/launcher_heart.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "deploy/launcher/agent_frames.h"

namespace tethys {
namespace {

// Closes all descriptors except `kept`, which are in ascending order. If this child held the write end of
// another pipe open, the reader of that pipe would never see end of file.
void CloseAllBut(const std::vector<int>& kept) {
  unsigned first = 0;
  for (const int fd : kept) {
    if (static_cast<unsigned>(fd) > first) close_range(first, fd - 1, 0);
    first = fd + 1;
  }
  close_range(first, ~0u, 0);
}

// The body of the child process.
[[noreturn]] void BeatForever(const std::vector<int>& pipes, const std::string& frame, pid_t launcher) {
  setpgid(0, 0);  // A terminal's signals to the launcher's group must not reach this child.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);
  prctl(PR_SET_NAME, "tethys-heart");
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  CloseAllBut(pipes);
  constexpr timespec kInterval = {kAgentBeat / kSecond, kAgentBeat % kSecond};
  while (true) {
    for (const int fd : pipes) {
      // A failed write is ignored: it means that the pipe is full of orders. Orders, too, show the agent that
      // the launcher is alive.
      [[maybe_unused]] const ssize_t written = write(fd, frame.data(), frame.size());
    }
    nanosleep(&kInterval, nullptr);
  }
}

}  // namespace

void LauncherHeart::Beat(std::vector<int> pipes) {
  std::sort(pipes.begin(), pipes.end());
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  if (pipes == pipes_ && (pid_ > 0 || pipes.empty())) return;
  Stop();
  pipes_ = std::move(pipes);
  if (pipes_.empty()) return;
  const std::string frame = HeartbeatFrame();
  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ == 0) BeatForever(pipes_, frame, launcher);
}

void LauncherHeart::Stop() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace tethys
