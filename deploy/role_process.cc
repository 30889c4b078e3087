#include "deploy/role_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "deploy/command.h"
#include "runtime/base/logging.h"
#include "runtime/cluster/task_options.h"

namespace tethys {
namespace {

constexpr size_t kMaxSecretLine = 1024;

// Reads on, and ends the process when there is nothing more to come.
void WatchLauncher(int fd) {
  std::thread([fd] {
    char ignored[64];
    while (true) {
      const ssize_t got = read(fd, ignored, sizeof(ignored));
      if (got > 0 || (got < 0 && errno == EINTR)) continue;
      TETHYS_LOG(Error, "the launcher is gone (end of standard input): ending");
      _exit(kExitFailed);
    }
  }).detach();
}

}  // namespace

absl::StatusOr<JobSecret> ReadSecret(int fd) {
  std::string line;
  char c = 0;
  while (line.size() < kMaxSecretLine) {
    const ssize_t got = read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || c == '\n') break;
    line += c;
  }
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (c != '\n' || words.size() != 2 || words[1].empty()) {
    // Never quotes the line: it may hold a secret.
    return absl::InvalidArgumentError(
        "the first line on standard input must be TOKEN JOB_ID: this command is for launchers, see tethys "
        "train");
  }
  TETHYS_ASSIGN_OR_RETURN(JobToken token, JobToken::FromHex(words[0]));
  return JobSecret{std::move(token), words[1]};
}

int RunRole(const std::string& verb, const std::string& name,
            const std::function<absl::Status(const JobSecret&)>& role) {
  prctl(PR_SET_NAME, absl::StrCat("tethys-", name).c_str());
  signal(SIGPIPE, SIG_IGN);  // A connection that broke is an error code, not a death.
  const absl::StatusOr<JobSecret> secret = ReadSecret(STDIN_FILENO);
  if (!secret.ok()) return Fail(verb, secret.status(), kExitBadRequest);
  WatchLauncher(STDIN_FILENO);
  const absl::Status status = role(*secret);
  return status.ok() ? kExitSuccess : Fail(verb, status, kExitFailed);
}

CommandSpec TaskCommandSpec(const std::string& verb, const std::string& summary,
                            const std::string& description) {
  return {
      .verb = verb,
      .summary = summary,
      .description =
          absl::StrCat(description,
                       "\n\nThe first line on standard input must be TOKEN JOB_ID, as the chief got it; "
                       "the process ends when standard input does."),
      .flags = {{.name = "chief", .value = "HOST:PORT", .help = "Where the chief listens.", .required = true},
                {.name = "index", .value = "I", .help = "Task index, from 0.", .required = true},
                {.name = "bind", .value = "HOST", .help = "Address to listen on. Default 127.0.0.1."},
                {.name = "incarnation", .value = "N", .help = "Which life of this task it is. Default 1."}},
      .examples = {
          absl::StrCat("tethys ", verb, " --chief=127.0.0.1:4000 --index=0 < secret-and-open-pipe")}};
}

int RunTask(const Flags& flags, const std::string& verb, proto::Role role,
            absl::Status (*run)(const TaskOptions& options)) {
  const absl::StatusOr<int64_t> index = flags.GetInteger("index", 0, 0, 1 << 20);
  if (!index.ok()) return Fail(verb, index.status(), kExitBadRequest);
  const absl::StatusOr<int64_t> incarnation = flags.GetInteger("incarnation", 1, 1, 1 << 30);
  if (!incarnation.ok()) return Fail(verb, incarnation.status(), kExitBadRequest);
  return RunRole(verb, absl::StrCat(verb, "-", *index), [&](const JobSecret& secret) {
    TaskOptions options;
    options.chief_address = flags.Get("chief");
    options.role = role;
    options.index = static_cast<int>(*index);
    options.incarnation = static_cast<uint32_t>(*incarnation);
    options.bind_host = flags.Get("bind", "127.0.0.1");
    options.token = secret.token;
    options.job_id = secret.job_id;
    return run(options);
  });
}

}  // namespace tethys
