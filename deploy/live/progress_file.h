// RUN_DIR/progress.jsonl: the events of a run as the launcher receives them, one proto::ProgressEvent a line
// in protobuf's JSON mapping. The launcher writes the file; a program may read it while it grows and
// afterwards. Blocking on a local file; thread-compatible.
//
// The file is bounded: a file beyond kMostBytes is replaced by a thinned file. The newest lines stay as they
// are; of the older lines, every second pulse and every second progress event are left out. So the file shows
// the whole course of a long run coarsely and its newest part completely. A reader notices the replacement
// and starts again.
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

// Shortens `lines` to about `most` bytes. Among the lines before the last `most` / 4 bytes, it leaves out
// every second pulse and every second progress event repeatedly, then every second other event, and finally
// lines at the beginning. Pure.
std::string ThinLines(absl::string_view lines, int64_t most);

class ProgressFile {
 public:
  static constexpr int64_t kMostBytes = int64_t{16} << 20;

  // Continues the file if it exists; an incomplete last line is cut off.
  static absl::StatusOr<std::unique_ptr<ProgressFile>> Open(const std::string& run_dir,
                                                            int64_t most_bytes = kMostBytes);

  // Of successive progress events, only the last one is written, once an event of another kind follows.
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
