// The form in which the lines of a process's log are shown to the user, and the times of these lines. Pure;
// any thread.
#ifndef TETHYS_DEPLOY_PROCESS_LOG_LINE_H_
#define TETHYS_DEPLOY_PROCESS_LOG_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tethys {

// The line for a display: "[worker 3] text". Control characters are replaced by '?'. A final carriage return
// is dropped, because ssh ends its own lines with one.
std::string ShownLogLine(absl::string_view process, absl::string_view line);

// The time at the beginning of a line that TETHYS_LOG wrote, such as "2026-11-21T12:34:56.789"; empty for any
// other line. Comparing two such texts as strings compares their times.
absl::string_view LogLineTime(absl::string_view line);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LOG_LINE_H_
