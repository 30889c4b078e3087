// Shows the logs of a run's processes merged into one, in the order of the times at the beginning of their
// lines (runtime/base/logging.h), for `tethys runs logs`. A line without a time follows the line before it in
// its own log. Times are local times of the processes' machines, so lines of machines whose clocks differ may
// be out of order. Memory does not grow with the logs. Thread-compatible; blocks as reading local files does.
#ifndef TETHYS_DEPLOY_PROCESS_LOG_MERGE_H_
#define TETHYS_DEPLOY_PROCESS_LOG_MERGE_H_

#include <functional>
#include <map>
#include <string>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class LogMerge {
 public:
  // Receives a line, "[worker 3] text", made by ShownLogLine.
  using Show = std::function<void(const std::string& line)>;

  // A longer line is shown in pieces.
  static constexpr size_t kMaxLineBytes = 16 << 10;

  explicit LogMerge(Show show) : show_(std::move(show)) {}

  // Adds all files NAME.log of a folder that were not added before, from their beginning. A missing folder
  // has no files. InvalidArgument: a path NAME.log is not a regular file.
  absl::Status AddFolder(const std::string& folder);

  // Shows all lines that were added since the last call, in the order of their times. An incomplete last line
  // waits for its newline unless the processes have `ended`.
  absl::Status ShowNew(bool ended);

  int logs() const { return static_cast<int>(logs_.size()); }

 private:
  struct Log {
    std::string path = {};
    std::string process = {};  // The name of the process, such as "worker 3".
    FileDescriptor file = {};
    std::string bytes = {};  // Bytes that were read. The next line begins at `begin`.
    size_t begin = 0;
    std::string line = {};  // The next line to show.
    // The time of `line`, or of the last line before it that has a time; never less than an earlier `time`.
    std::string time = {};
  };
  absl::Status Add(const std::string& path, const std::string& process);
  // Sets log.line to the next line. Returns false if the log has no complete line for now.
  static absl::StatusOr<bool> FindLine(bool ended, Log& log);

  const Show show_;
  std::map<std::string, Log> logs_;  // Keyed by path.
};

// The name of the process that writes a log file: "worker 3" for "worker-3.log", "chief" for "chief-0.log",
// and "watch" for "watch.log".
std::string ProcessOfLog(const std::string& file);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LOG_MERGE_H_
