// One line per event on standard error: "I 2026-11-21T12:34:56.789 file.cc:12] text". The launcher gives each
// process a log file of its own, so a line need not name its process. Any thread may log; each line is
// written by one call of write.
#ifndef TETHYS_RUNTIME_BASE_LOGGING_H_
#define TETHYS_RUNTIME_BASE_LOGGING_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace tethys::internal {
void LogLine(char severity, const char* file, int line, const std::string& text);
}

// TETHYS_LOG(Info, "joined as worker ", index). Severities: Info, Warning, Error.
#define TETHYS_LOG(severity, ...) \
  ::tethys::internal::LogLine(#severity[0], __FILE__, __LINE__, absl::StrCat(__VA_ARGS__))

#endif  // TETHYS_RUNTIME_BASE_LOGGING_H_
