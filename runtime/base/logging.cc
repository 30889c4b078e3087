#include "runtime/base/logging.h"

#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "runtime/base/shared_log.h"

namespace tethys {
namespace {

// Settings of the log of a process that shares its standard error with other processes. The settings are
// global, because a process has one standard error.
struct Sharing {
  std::string prefix;
  bool leaves_out_info = false;
};
Sharing& SharingOfStandardError() {
  static Sharing& sharing = *new Sharing;
  return sharing;
}

}  // namespace

void ShareStandardError(const std::string& owner, bool all) {
  SharingOfStandardError() = {.prefix = absl::StrCat("[", owner, "] "), .leaves_out_info = !all};
}

namespace internal {

void LogLine(char severity, const char* file, int line, const std::string& text) {
  const Sharing& sharing = SharingOfStandardError();
  if (sharing.leaves_out_info && severity == 'I') return;
  timeval now;
  gettimeofday(&now, nullptr);
  tm parts;
  localtime_r(&now.tv_sec, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &parts);
  const char* base = std::strrchr(file, '/');
  char millis[8];
  std::snprintf(millis, sizeof(millis), ".%03d", static_cast<int>(now.tv_usec / 1000));
  const std::string whole = absl::StrCat(sharing.prefix, std::string(1, severity), " ", stamp, millis, " ",
                                         base != nullptr ? base + 1 : file, ":", line, "] ", text, "\n");
  // A short or failed write of a log line cannot be reported anywhere.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, whole.data(), whole.size());
}

}  // namespace internal
}  // namespace tethys
