// Reads the lines that processes append to their log files and shows each line with the name of its process,
// for the launcher's display. The file is the buffer, so a slow display never delays a process; a long log is
// read in pieces. Thread-compatible; blocks only as reading a local file does.
#ifndef TETHYS_DEPLOY_PROCESS_LOG_FOLLOWER_H_
#define TETHYS_DEPLOY_PROCESS_LOG_FOLLOWER_H_

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class LogFollower {
 public:
  // Receives a line, "[worker 3 on slave2] text". Control characters are replaced by '?'.
  using Show = std::function<void(const std::string& line)>;

  // A longer line is shown in pieces.
  static constexpr size_t kMaxLineBytes = 16 << 10;
  // The most bytes that one call of ShowNew reads from one file.
  static constexpr size_t kMaxLookBytes = 64 << 10;

  explicit LogFollower(Show show) : show_(std::move(show)) {}

  // Starts at the file's present end; creates the file if it does not exist. No-op if the file is followed
  // already. `label`: "worker 3 on slave2".
  absl::Status Follow(const std::string& path, const std::string& label);

  // Shows the lines added since the last call, file by file. An incomplete line waits for its newline.
  void ShowNew();

  // Shows all that is left, incomplete last lines included; for processes that have ended.
  void ShowRest();

 private:
  struct Log {
    FileDescriptor fd;
    std::string process;  // The name of the process, such as "worker 3 on slave2".
    std::string pending;  // A line without its end yet.
  };
  // Reads one piece of the log. Returns false if the log has no new bytes.
  bool Look(Log& log);
  void ShowPending(Log& log);

  const Show show_;
  std::map<std::string, Log> logs_;  // Keyed by path.
};

// The last `lines` lines of a file, each indented; empty if there are none. Bytes before `begin` are skipped,
// because earlier attempts may have written them. Lines that contain a line of `told`, a text that the user
// has already read, are left out.
std::string LogTail(const std::string& path, int lines, int64_t begin = 0, const std::string& told = "");

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LOG_FOLLOWER_H_
