// Reads what processes append to their log files, line by line and each line with the name of its process:
// what a launcher shows of them while they run. The file is the buffer: nobody is held up by whoever looks,
// and a process that writes a lot is looked at in pieces. Thread-compatible; blocks only as reading a local
// file does.
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
  // Takes a line, "[worker 3 on slave2] text". Characters that a terminal obeys come as '?'.
  using Show = std::function<void(const std::string& line)>;

  // A longer line comes in pieces.
  static constexpr size_t kMaxLineBytes = 16 << 10;
  // Of one file, at one look.
  static constexpr size_t kMaxLookBytes = 64 << 10;

  explicit LogFollower(Show show) : show_(std::move(show)) {}

  // From the end that the file has now; it is made where there is none. A file that is followed already goes
  // on where it is. `label`: "worker 3 on slave2".
  absl::Status Follow(const std::string& path, const std::string& label);

  // Shows what has been added since the last look, by file. The beginning of a line waits for its end.
  void ShowNew();

  // All that is left, lines without an end included: whoever wrote them is gone.
  void ShowRest();

 private:
  struct Log {
    FileDescriptor fd;
    std::string prefix;   // "[worker 3 on slave2] "
    std::string pending;  // The beginning of a line.
  };
  // False where nothing was added.
  bool Look(Log& log);
  void ShowPending(Log& log);

  const Show show_;
  std::map<std::string, Log> logs_;  // By path.
};

// The last `lines` lines of a file, each indented; empty when there is nothing. `begin`: the byte from which
// lines count, where the file holds those of earlier attempts before it.
std::string LogTail(const std::string& path, int lines, int64_t begin = 0);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_LOG_FOLLOWER_H_
