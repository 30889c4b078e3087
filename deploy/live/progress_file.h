// RUN_DIR/progress.jsonl: the events of a run as the launcher receives them, one proto::ProgressEvent a line
// in protobuf's JSON mapping. The launcher writes the file; a program may read it while it grows and
// afterwards. Blocking on a local file; thread-compatible.
//
// The file is bounded: if it grows beyond kMostBytes, the launcher replaces it by a thinned file. The newest
// lines stay as they are. Of the older lines, every second pulse and every second progress event are left
// out. So the file covers a whole long run coarsely, and the newest part of the run completely. A reader
// notices the replacement and reads the new file from its beginning.
#ifndef TETHYS_DEPLOY_LIVE_PROGRESS_FILE_H_
#define TETHYS_DEPLOY_LIVE_PROGRESS_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

extern const char kProgressFile[];  // The file's name in the run directory.

// Shortens `lines` to about `most` bytes. The last `most` / 4 bytes are kept. From the lines before them,
// every second pulse and every second progress event are left out, repeatedly. When none of these is left to
// remove, every second line of any kind is left out and, as a last resort, the first lines are. Pure.
std::string ThinLines(absl::string_view lines, int64_t most);

class ProgressFile {
 public:
  static constexpr int64_t kMostBytes = int64_t{16} << 20;

  // Continues the file if it exists; an incomplete last line is cut off.
  static absl::StatusOr<std::unique_ptr<ProgressFile>> Open(const std::string& run_dir,
                                                            int64_t most_bytes = kMostBytes);

  // Of successive progress events, only the last one is written, and not before an event of another kind
  // follows.
  absl::Status Add(const proto::ProgressEvent& event);

 private:
  ProgressFile(std::string path, int64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {}
  absl::Status Write(const proto::ProgressEvent& event);
  absl::Status Thin();

  const std::string path_;
  const int64_t most_bytes_;
  std::unique_ptr<AppendFile> file_;
  int64_t bytes_ = 0;
  proto::ProgressEvent progress_;  // A progress event that is not written yet; empty if there is none.
};

// Reads the events that are added to the file.
class ProgressReader {
 public:
  // The most bytes of a line that is parsed. A longer line counts as unreadable.
  static constexpr int64_t kMostLineBytes = int64_t{1} << 22;

  explicit ProgressReader(const std::string& run_dir);

  // Passes the events in all complete new lines to `take`. If the file was replaced or became shorter, first
  // calls `restart` and reads from the beginning of the file. A missing file has no lines. An incomplete last
  // line is left for the next call.
  absl::Status ReadNew(const std::function<void()>& restart,
                       const std::function<void(const proto::ProgressEvent&)>& take);
  // The number of lines in the file so far that are no events: damaged, or written by another version.
  int64_t unreadable() const { return unreadable_; }
  bool found() const { return file_.valid(); }

 private:
  absl::Status Reopen(const std::function<void()>& restart);
  void TakeLines(const std::function<void(const proto::ProgressEvent&)>& take);

  const std::string path_;
  FileDescriptor file_;
  uint64_t inode_ = 0;
  int64_t offset_ = 0;
  std::string pending_;
  int64_t unreadable_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_PROGRESS_FILE_H_
