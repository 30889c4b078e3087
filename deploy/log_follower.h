// Reads what processes append to their log files, line by line and each line with the name of its process:
// what a launcher shows of them while they run. The file is the buffer: nobody is held up by whoever looks,
// and a process that writes a lot is looked at in pieces. Thread-compatible; blocks only as reading a local
// file does.
#ifndef TETHYS_DEPLOY_LOG_FOLLOWER_H_
#define TETHYS_DEPLOY_LOG_FOLLOWER_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class LogFollower {
 public:
  // A longer line comes in pieces.
  static constexpr size_t kMaxLineBytes = 16 << 10;
  // Of one file, at one look.
  static constexpr size_t kMaxLookBytes = 64 << 10;

  // From the end that the file has now; it is made where there is none. A file that is followed already goes
  // on where it is. `label`: "worker 3 on slave2".
  absl::Status Follow(const std::string& path, const std::string& label);

  // What has been added since the last look, by file: "[worker 3 on slave2] text". The beginning of a line
  // waits for its end. Characters that a terminal obeys come as '?'.
  std::vector<std::string> NewLines();

  // All that is left, lines without an end included: whoever wrote them is gone.
  std::vector<std::string> LastLines();

 private:
  struct Log {
    FileDescriptor fd;
    std::string prefix;   // "[worker 3 on slave2] "
    std::string pending;  // The beginning of a line.
  };
  // False where nothing was added.
  static bool Look(Log& log, std::vector<std::string>& lines);

  std::map<std::string, Log> logs_;  // By path.
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LOG_FOLLOWER_H_
