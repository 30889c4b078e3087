#include "runtime/base/logging.h"

#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

namespace tethys::internal {

void LogLine(char severity, const char* file, int line, const std::string& text) {
  timeval now;
  gettimeofday(&now, nullptr);
  tm parts;
  localtime_r(&now.tv_sec, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &parts);
  const char* base = std::strrchr(file, '/');
  char millis[8];
  std::snprintf(millis, sizeof(millis), ".%03d", static_cast<int>(now.tv_usec / 1000));
  const std::string whole = absl::StrCat(std::string(1, severity), " ", stamp, millis, " ",
                                         base != nullptr ? base + 1 : file, ":", line, "] ", text, "\n");
  // A short or failed write of a log line cannot be reported anywhere.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, whole.data(), whole.size());
}

}  // namespace tethys::internal
