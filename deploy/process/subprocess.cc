#include "deploy/process/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/base/thread.h"

namespace tethys {
namespace {

// TakePlaces first moves a child's descriptors to the numbers from kOutOfTheWay on, so that none of them is
// overwritten when they move to the numbers 0 to kReport.
constexpr int kOutOfTheWay = 10;
// The child's descriptor of the pipe that reports a failed exec; a successful exec closes it.
constexpr int kReport = 3;

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

void CloseFrom(int first) {
  if (close_range(first, ~0u, 0) == 0) return;
  // Kernels before 5.9 lack close_range.
  for (int fd = first; fd < sysconf(_SC_OPEN_MAX); ++fd) close(fd);
}

// Gives fds[i] the descriptor number i, for each i, and closes all other descriptors. False on failure.
bool TakePlaces(std::array<int, kReport + 1> fds) {
  for (int& fd : fds) {
    fd = fcntl(fd, F_DUPFD_CLOEXEC, kOutOfTheWay);
    if (fd < 0) return false;
  }
  for (int i = 0; i <= kReport; ++i) {
    if (dup3(fds[i], i, i == kReport ? O_CLOEXEC : 0) < 0) return false;
  }
  CloseFrom(kReport + 1);
  return true;
}

void ResetSignals() {
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Runs in the child. The pipe `report` receives errno if the program cannot be started.
[[noreturn]] void BecomeChild(const char* program, char* const* arguments, pid_t launcher, int input,
                              int output, int log, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // If the launcher died before the line above, the kernel sends no signal.
  if (getppid() != launcher) _exit(1);
  ResetSignals();
  if (TakePlaces({input, output, log, report})) execvp(program, arguments);
  const int error = errno;
  [[maybe_unused]] ssize_t written = write(kReport, &error, sizeof(error));
  _exit(127);
}

// Returns the errno of a failed exec, or 0 if a successful exec closed the pipe.
int ReadExecError(int fd) {
  int error = 0;
  ssize_t got;
  do {
    got = read(fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

}  // namespace

std::string ExitText(const ProcessExit& exit) {
  if (exit.connection_lost) {
    return absl::StrCat("lost its ssh connection",
                        exit.reason.empty() ? "" : absl::StrCat(" (", exit.reason, ")"));
  }
  if (exit.signal == 0) return absl::StrCat("exited with status ", exit.code);
  return absl::StrCat("was killed by signal ", exit.signal, " (", strsignal(exit.signal), ")");
}

std::string KillReason(const MemoryKills& before, const MemoryKills& after, int64_t limit_bytes) {
  constexpr char kRemedy[] =
      ": take a smaller batch or fewer processes on this machine; tethys plan predicts the memory";
  if (before.group >= 0 && after.group > before.group) {
    const std::string limit =
        limit_bytes < 0 ? "" : absl::StrCat(", whose limit is ", limit_bytes >> 20, " MiB");
    return absl::StrCat("the kernel has killed a process because memory ran out in the control group", limit,
                        kRemedy);
  }
  if (before.machine >= 0 && after.machine > before.machine) {
    return absl::StrCat("the kernel has killed a process because memory ran out on this machine", kRemedy);
  }
  if (before.machine >= 0 || before.group >= 0) {
    return "Tethys did not send the signal, and the kernel reports no lack of memory on this machine: a user "
           "or a scheduler sent it; a scheduler may do so if a job exceeds its memory limit";
  }
  return absl::StrCat("Tethys did not send the signal; the usual cause is a lack of memory (see dmesg)",
                      kRemedy);
}

absl::StatusOr<Subprocess> Subprocess::Spawn(const SpawnOptions& options) {
  TETHYS_CHECK(options.input.size() <= 4096, "the input must fit into a pipe that nobody reads yet");
  TETHYS_ASSIGN_OR_RETURN(Pipe input, MakePipe());
  TETHYS_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  TETHYS_ASSIGN_OR_RETURN(Pipe log, MakePipe());
  TETHYS_ASSIGN_OR_RETURN(Pipe report, MakePipe());
  // While this process still has the read end, this write can neither block nor raise SIGPIPE.
  TETHYS_RETURN_IF_ERROR(WriteFully(input.write.get(), options.input.data(), options.input.size(), "a pipe"));
  if (!options.input_path.empty()) {
    input.read = FileDescriptor(open(options.input_path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!input.read.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", options.input_path));
  }
  if (!options.read_log) {
    log.write =
        FileDescriptor(open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!log.write.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", options.log_path));
  }

  std::vector<std::string> words = {options.name};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const pid_t launcher = getpid();
  const MemoryKills kills_before = ReadMemoryKills();
  const pid_t pid = fork();
  if (pid < 0) return StartError(errno, absl::StrCat("cannot start ", options.program));
  if (pid == 0) {
    BecomeChild(options.program.c_str(), arguments.data(), launcher, input.read.get(),
                options.read_output ? output.write.get() : log.write.get(), log.write.get(),
                report.write.get());
  }

  Subprocess child;
  child.pid_ = pid;
  child.kills_before_ = kills_before;
  report.write.Close();
  if (const int error = ReadExecError(report.read.get()); error != 0) {
    return ErrnoStatus(error, absl::StrCat("cannot execute ", options.program));
  }
  child.input_ = options.input_path.empty() ? std::move(input.write) : std::move(input.read);
  if (options.read_output) {
    child.output_ = std::move(output.read);
    fcntl(child.output_.get(), F_SETFL, O_NONBLOCK);
  }
  if (options.read_log) {
    child.log_ = std::move(log.read);
    fcntl(child.log_.get(), F_SETFL, O_NONBLOCK);
  }
  return child;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(other.pid_),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      log_(std::move(other.log_)),
      kills_before_(other.kills_before_),
      killed_(other.killed_),
      exit_(other.exit_) {
  other.pid_ = -1;
}

Subprocess::~Subprocess() {
  if (pid_ < 0 || Poll().has_value()) return;
  Signal(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

int64_t Subprocess::input_offset() const {
  return std::max<int64_t>(lseek(input_.get(), 0, SEEK_CUR), 0);  // lseek returns -1 if the input is a pipe.
}

bool Subprocess::Say(const std::string& text) {
  return write(input_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

const std::optional<ProcessExit>& Subprocess::Poll() {
  int status;
  if (exit_.has_value() || waitpid(pid_, &status, WNOHANG) != pid_) return exit_;
  if (WIFSIGNALED(status)) {
    exit_ = ProcessExit{.signal = WTERMSIG(status)};
    if (exit_->signal == SIGKILL && !killed_) {
      exit_->reason = KillReason(kills_before_, ReadMemoryKills(), ReadGroupLimits().memory_bytes);
    }
  } else {
    exit_ = ProcessExit{.code = WEXITSTATUS(status)};
  }
  return exit_;
}

void Subprocess::Signal(int signal) {
  if (exit_.has_value()) return;
  killed_ = killed_ || signal == SIGKILL;
  kill(-pid_, signal);
  kill(-pid_, SIGCONT);
}

}  // namespace tethys
