#include "runtime/base/process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/base/blocked_signals.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

// In builds with AddressSanitizer, looks for leaks, which AddressSanitizer otherwise does in an exit handler.
// Null in other builds.
extern "C" __attribute__((weak)) void __lsan_do_leak_check();  // NOLINT(bugprone-reserved-identifier)

namespace tethys {

int64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long long size = 0, resident = 0;
  const int fields = std::fscanf(file, "%lld %lld", &size, &resident);
  std::fclose(file);
  return fields == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

std::string HostName() {
  char name[256] = "localhost";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string OverloadText() {
  constexpr double kMostOfACore = 4;
  const int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
  double load = 0;
  if (getloadavg(&load, 1) != 1 || cores < 1 || load <= kMostOfACore * static_cast<double>(cores)) return "";
  return absl::StrFormat("this machine is overloaded: load %.1f on %d cores", load, cores);
}

std::string BootId() {
  const absl::StatusOr<std::string> text = ReadFile("/proc/sys/kernel/random/boot_id", 1024);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

absl::optional<int64_t> ProcessStart(int64_t process) {
  // The index of the start time among the fields after the name (field 22 of the line in proc(5)). The name
  // may contain spaces.
  constexpr size_t kField = 19;
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat("/proc/", process, "/stat"), 1 << 12);
  if (!text.ok()) return absl::nullopt;
  const size_t name_end = text->rfind(") ");
  if (name_end == std::string::npos) return absl::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(*text).substr(name_end + 2), ' ');
  int64_t start = 0;
  if (fields.size() <= kField || !absl::SimpleAtoi(fields[kField], &start)) return absl::nullopt;
  return start;
}

void EndProcessAtOnce() { _exit(1); }

void EndProcess(int status) {
  // Flushes only stdout and stderr, because flushing all streams would wait for a thread that is reading from
  // a stream.
  std::fflush(stdout);
  std::fflush(stderr);
  if (__lsan_do_leak_check != nullptr) __lsan_do_leak_check();
  _exit(status);
}

void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status KeepSignalsOffThisThread() {
  Thread taker;
  TETHYS_RETURN_IF_ERROR(taker.Start([] {
    while (true) pause();
  }));
  taker.Detach();
  const sigset_t blocked = BlockableSignals();
  TETHYS_CHECK(pthread_sigmask(SIG_BLOCK, &blocked, nullptr) == 0);
  return absl::OkStatus();
}

}  // namespace tethys
