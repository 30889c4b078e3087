// The lines of a process's log, as a user is shown them. Pure; any thread.
#ifndef TETHYS_DEPLOY_PROCESS_LOG_LINE_H_
#define TETHYS_DEPLOY_PROCESS_LOG_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

// "[worker 3] text" for a display. Control characters are replaced by '?'. A final carriage return is
// dropped, because ssh ends its own lines with one.
std::string ShownLogLine(absl::string_view process, absl::string_view line);

// "2026-11-21T12:34:56.789" of a line that TETHYS_LOG wrote; empty for any other line. The text of an earlier
// time is smaller.
absl::string_view LogLineTime(absl::string_view line);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LOG_LINE_H_
