#include "deploy/run/role_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "absl/strings/str_cat.h"
#include "deploy/flags/command.h"
#include "deploy/hosts/build_in_use.h"
#include "deploy/hosts/host_addresses.h"
#include "deploy/process/own_program.h"
#include "deploy/run/secret_source.h"
#include "runtime/base/file.h"
#include "runtime/base/logging.h"
#include "runtime/base/socket.h"
#include "runtime/base/thread.h"
#include "runtime/cluster/failure_kind.h"
#include "runtime/cluster/task_options.h"
#include "runtime/remote/remote_files.h"

namespace tethys {
namespace {

// The least number of threads that a role must be able to start, gRPC's threads included. If gRPC cannot
// start a thread, it waits forever.
constexpr int kThreadsOfRole = 12;

// Ends this process when `fd` reaches end of file. Bytes before the end of file are ignored.
absl::Status WatchLauncher(int fd) {
  Thread watch;
  TETHYS_RETURN_IF_ERROR(watch.Start([fd] {
    char ignored[64];
    while (true) {
      const ssize_t got = read(fd, ignored, sizeof(ignored));
      if (got > 0 || (got < 0 && errno == EINTR)) continue;
      TETHYS_LOG(Error, "the launcher is gone (end of standard input): ending");
      _exit(kExitFailed);
    }
  }));
  watch.Detach();
  return absl::OkStatus();
}

// The handler for a failed allocation (std::set_new_handler). Without a handler, the allocation would throw.
[[noreturn]] void EndForWantOfMemory() {
  constexpr char kText[] =
      "out of memory: the machine, the control group or ulimit -v gives this process no more memory: take a "
      "smaller batch or fewer processes here (tethys plan predicts the memory)\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(kExitFailed);
}

// The address at which a worker or server listens, as text for ParseListenAddress. This is `given`, the value
// of --bind. But if `given` is empty, or stands for loopback while the chief is on another machine, the host
// is this machine's address on the route to `chief`.
absl::StatusOr<std::string> BindAddress(const std::string& given, const std::string& chief) {
  HostPort bind;
  if (!given.empty()) {
    TETHYS_ASSIGN_OR_RETURN(bind, ParseListenAddress(given));
  }
  TETHYS_ASSIGN_OR_RETURN(bind.host, ListenAddress(bind.host, {chief}));
  return HostPortText(bind);
}

}  // namespace

FlagSpec HostFlag() {
  return {.name = "host",
          .value = "NAME",
          .help = "Name of this machine in messages and results. Default: its own name."};
}

FlagSpec CudaLibraryPathFlag() {
  return {
      .name = "cuda_library_path",
      .value = "DIR",
      .help =
          "For workers with device { kind: CUDA }: folder of cuDNN and cuBLAS on their hosts, for example "
          "the site-packages of a PyTorch. Default: the system's library path.",
      .repeated = true};
}

int RunRoleWithSecret(const JobSecret& secret, const RoleCall& call, const RoleFunction& role) {
  prctl(PR_SET_NAME, absl::StrCat("tethys-", call.name).c_str());
  signal(SIGPIPE, SIG_IGN);  // A write to a broken connection then returns an error.
  std::set_new_handler(EndForWantOfMemory);
  const auto report = [&](const absl::Status& status) {
    if (status.ok()) return kExitSuccess;
    const bool mishap = call.verb == "worker" && MayBefallOneProcess(status);
    const int exit_status = mishap ? kExitMishap : kExitFailed;
    if (!call.caller.empty()) return Fail(call.caller, status, exit_status);
    // This is the only line about the failure in this process's log.
    TETHYS_LOG(Error, StatusText(status));
    return exit_status;
  };
  absl::Status threads = CheckThreads(kThreadsOfRole);
  if (threads.ok() && call.has_launcher) threads = WatchLauncher(STDIN_FILENO);
  if (!threads.ok()) return report(threads);
  if (!secret.data_secrets.empty()) {
    SetSecretsSource([bytes = secret.data_secrets]() -> absl::StatusOr<proto::RemoteSecrets> {
      proto::RemoteSecrets secrets;
      if (secrets.ParseFromString(bytes)) return secrets;
      return absl::InvalidArgumentError(
          "the launcher's secrets for data cannot be read: the launcher must be of the same build");
    });
  }
  const BuildInUse in_use(OwnBundle(), BuildInUse::kInterval);
  return report(role(secret));
}

int RunRole(const Flags& flags, const std::string& verb, const std::string& name, const RoleFunction& role) {
  const bool file = flags.Has("token_file");
  const absl::StatusOr<JobSecret> secret =
      file ? ReadSecretFile(flags.Get("token_file")) : ReadSecret(STDIN_FILENO);
  if (!secret.ok()) return Fail(verb, secret.status(), kExitBadRequest);
  return RunRoleWithSecret(*secret, {.verb = verb, .name = name, .has_launcher = !file}, role);
}

CommandSpec TaskCommandSpec(const std::string& verb, const std::string& summary,
                            const std::string& description) {
  return {
      .verb = verb,
      .summary = summary,
      .description = absl::StrCat(
          description,
          "\n\nThe first line on standard input must be TOKEN JOB_ID, the same as the chief's; "
          "the process ends when standard input does. With --token_file it reads a file "
          "instead, for schedulers that start processes by themselves (docs/guide/schedulers.md)."),
      .flags = {{.name = "chief", .value = "HOST:PORT", .help = "The chief's address.", .required = true},
                {.name = "index", .value = "I", .help = "Task index, from 0.", .required = true},
                {.name = "bind",
                 .value = "HOST",
                 .help = "Address to listen on. Default: this machine's address on the route to the chief."},
                HostFlag(),
                {.name = "incarnation",
                 .value = "N",
                 .help = "How often the task was started, this start included. Default 1."},
                {.name = "connect_timeout",
                 .value = "SECONDS",
                 .help = "The longest wait for the chief's answer when the process joins. Default 30."},
                {.name = "slow_down",
                 .value = "MS",
                 .help = "For trials: milliseconds that a worker waits before each step. Default 0."},
                CudaLibraryPathFlag(),
                TokenFileFlag()},
      .examples = {
          absl::StrCat("tethys ", verb, " --chief=127.0.0.1:4000 --index=0 < secret-and-open-pipe")}};
}

int RunTask(const Flags& flags, const std::string& verb, proto::Role role,
            absl::Status (*run)(const TaskOptions& options)) {
  const absl::StatusOr<HostPort> chief = ParseHostPort(flags.Get("chief"));
  if (!chief.ok()) return Fail(verb, Annotate(chief.status(), "--chief"), kExitBadRequest);
  const absl::StatusOr<int64_t> index = flags.GetInteger("index", 0, 0, 1 << 20);
  if (!index.ok()) return Fail(verb, index.status(), kExitBadRequest);
  const absl::StatusOr<int64_t> incarnation = flags.GetInteger("incarnation", 1, 1, 1 << 30);
  if (!incarnation.ok()) return Fail(verb, incarnation.status(), kExitBadRequest);
  const absl::StatusOr<int64_t> slow_down = flags.GetInteger("slow_down", 0, 0, 1 << 20);
  if (!slow_down.ok()) return Fail(verb, slow_down.status(), kExitBadRequest);
  const absl::StatusOr<std::string> bind = BindAddress(flags.Get("bind"), chief->host);
  if (!bind.ok()) return Fail(verb, Annotate(bind.status(), "--bind"), kExitBadRequest);
  const absl::StatusOr<int64_t> connect_timeout = flags.GetInteger("connect_timeout", 30, 1, 1 << 20);
  if (!connect_timeout.ok()) return Fail(verb, connect_timeout.status(), kExitBadRequest);
  return RunRole(flags, verb, absl::StrCat(verb, "-", *index), [&](const JobSecret& secret) {
    TaskOptions options;
    options.connect_timeout = *connect_timeout * kSecond;
    options.chief_address = flags.Get("chief");
    options.role = role;
    options.index = static_cast<int>(*index);
    options.incarnation = static_cast<uint32_t>(*incarnation);
    options.cuda_library_path = flags.GetAll("cuda_library_path");
    options.slow_down = *slow_down * kMillisecond;
    options.host = flags.Get("host");
    options.bind_host = *bind;
    options.token = secret.token;
    options.job_id = secret.job_id;
    options.tls = secret.tls;
    return run(options);
  });
}

}  // namespace tethys
