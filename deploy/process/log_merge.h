// Shows the logs of a run's processes as one, in the order of the times that their lines begin with
// (runtime/base/logging.h), for `tethys runs logs`. A line without a time follows the line before it in its
// own log. Times are local times of the processes' machines, so lines of machines whose clocks differ may be
// out of order. Memory does not grow with the logs. Thread-compatible; blocks as reading local files does.
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
  // has no files. InvalidArgument: such a path is not a regular file.
  absl::Status AddFolder(const std::string& folder);

  // Shows all lines that were added since the last call, ordered among themselves. An incomplete last line
  // waits for its newline unless the processes have `ended`.
  absl::Status ShowNew(bool ended);

  int logs() const { return static_cast<int>(logs_.size()); }

 private:
  struct Log {
    std::string path = {};
    std::string process = {};  // "worker 3"
    FileDescriptor file = {};
    std::string bytes = {};  // The bytes that were read; those from `begin` on do not form a line yet.
    size_t begin = 0;
    std::string line = {};  // The next line to show.
    // The time of `line`; without one, the time of the last line before it that has one.
    std::string time = {};
  };
  absl::Status Add(const std::string& path, const std::string& process);
  // Sets the log's line. Returns false if there is none for now.
  static absl::StatusOr<bool> FindLine(bool ended, Log& log);

  const Show show_;
  std::map<std::string, Log> logs_;  // Keyed by path.
};

// "worker 3" for "worker-3.log", "chief" for "chief-0.log", and "watch" for "watch.log".
std::string ProcessOfLog(const std::string& file);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LOG_MERGE_H_
