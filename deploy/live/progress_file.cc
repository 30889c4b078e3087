#include "deploy/live/progress_file.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tethys {
namespace {

constexpr size_t kMostNoteBytes = 1024;
constexpr size_t kPieceBytes = size_t{1} << 18;

std::string JsonLine(const proto::ProgressEvent& event) {
  google::protobuf::util::JsonPrintOptions json;
  json.preserve_proto_field_names = true;
  std::string line;
  if (!google::protobuf::util::MessageToJsonString(event, &line, json).ok()) return "";
  return line + "\n";
}

bool IsPulse(absl::string_view line) { return absl::StartsWith(line, "{\"pulse\""); }
bool IsProgress(absl::string_view line) { return absl::StartsWith(line, "{\"progress\""); }

// Among the first `kept` lines, leaves out every second line for which `which` is true. Reduces `kept` by the
// number of lines left out, and returns the number of bytes left out.
template <typename Which>
int64_t LeaveOutEverySecond(std::vector<absl::string_view>& lines, size_t& kept, const Which& which) {
  int64_t bytes = 0;
  size_t seen = 0, next = 0;
  for (size_t i = 0; i < kept; ++i) {
    if (which(lines[i]) && seen++ % 2 == 1) {
      bytes += static_cast<int64_t>(lines[i].size()) + 1;
    } else {
      lines[next++] = lines[i];
    }
  }
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(next),
              lines.begin() + static_cast<std::ptrdiff_t>(kept));
  kept = next;
  return bytes;
}

}  // namespace

const char kProgressFile[] = "progress.jsonl";

std::string ThinLines(absl::string_view text, int64_t most) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  int64_t bytes = 0, newest = 0;
  for (const absl::string_view line : lines) bytes += static_cast<int64_t>(line.size()) + 1;
  size_t kept = lines.size();
  while (kept > 0 && newest < most / 4) newest += static_cast<int64_t>(lines[--kept].size()) + 1;
  const auto any = [](absl::string_view) { return true; };
  while (bytes > most) {
    // Thins each kind of line separately. Pulses and lines of progress usually alternate, so leaving out
    // every second line of the file would leave out all lines of one kind.
    int64_t left_out = LeaveOutEverySecond(lines, kept, IsPulse);
    left_out += LeaveOutEverySecond(lines, kept, IsProgress);
    if (left_out == 0) left_out = LeaveOutEverySecond(lines, kept, any);
    if (left_out == 0) break;
    bytes -= left_out;
  }
  size_t first = 0;
  while (bytes > most && first + 1 < lines.size()) bytes -= static_cast<int64_t>(lines[first++].size()) + 1;
  std::string result;
  for (; first < lines.size(); ++first) absl::StrAppend(&result, lines[first], "\n");
  return result;
}

absl::StatusOr<std::unique_ptr<ProgressFile>> ProgressFile::Open(const std::string& run_dir,
                                                                 int64_t most_bytes) {
  std::unique_ptr<ProgressFile> file(new ProgressFile(absl::StrCat(run_dir, "/", kProgressFile), most_bytes));
  TETHYS_ASSIGN_OR_RETURN(file->file_, AppendFile::OpenLines(file->path_));
  struct stat found;
  if (stat(file->path_.c_str(), &found) == 0) file->bytes_ = found.st_size;
  return file;
}

absl::Status ProgressFile::Add(const proto::ProgressEvent& event) {
  if (event.event_case() == proto::ProgressEvent::EVENT_NOT_SET) return absl::OkStatus();
  if (event.has_progress()) {
    progress_ = event;
    return absl::OkStatus();
  }
  if (progress_.has_progress()) {
    const proto::ProgressEvent progress = std::exchange(progress_, {});
    TETHYS_RETURN_IF_ERROR(Write(progress));
  }
  if (event.note().size() <= kMostNoteBytes) return Write(event);
  size_t size = kMostNoteBytes;
  // Moves back to the beginning of a character in UTF-8.
  while (size > 0 && (event.note()[size] & 0xc0) == 0x80) --size;
  proto::ProgressEvent shortened;
  shortened.set_note(event.note().substr(0, size));
  return Write(shortened);
}

absl::Status ProgressFile::Write(const proto::ProgressEvent& event) {
  const std::string line = JsonLine(event);
  TETHYS_RETURN_IF_ERROR(file_->Append(line));
  bytes_ += static_cast<int64_t>(line.size());
  return bytes_ > most_bytes_ ? Thin() : absl::OkStatus();
}

absl::Status ProgressFile::Thin() {
  TETHYS_ASSIGN_OR_RETURN(const std::string lines, ReadFile(path_));
  const std::string thinned = ThinLines(lines, most_bytes_ / 2);
  // WriteFileAtomically would wait until the disk has the data, and the launcher must not wait for the disk.
  const std::string temporary = path_ + ".tmp";
  {
    FileDescriptor fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd.valid()) return ErrnoStatus(errno, temporary);
    TETHYS_RETURN_IF_ERROR(
        WriteFully(fd.get(), thinned.data(), static_cast<int64_t>(thinned.size()), temporary));
  }
  if (rename(temporary.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, path_);
  TETHYS_ASSIGN_OR_RETURN(file_, AppendFile::Open(path_));
  bytes_ = static_cast<int64_t>(thinned.size());
  return absl::OkStatus();
}

ProgressReader::ProgressReader(const std::string& run_dir)
    : path_(absl::StrCat(run_dir, "/", kProgressFile)) {}

absl::Status ProgressReader::ReadNew(const std::function<void()>& restart,
                                     const std::function<void(const proto::ProgressEvent&)>& take) {
  TETHYS_RETURN_IF_ERROR(Reopen(restart));
  if (!file_.valid()) return absl::OkStatus();
  std::string piece(kPieceBytes, '\0');
  while (true) {
    const ssize_t got = pread(file_.get(), piece.data(), piece.size(), offset_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path_);
    if (got == 0) return absl::OkStatus();
    offset_ += got;
    pending_.append(piece, 0, static_cast<size_t>(got));
    TakeLines(take);
  }
}

absl::Status ProgressReader::Reopen(const std::function<void()>& restart) {
  struct stat found;
  if (stat(path_.c_str(), &found) != 0) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, path_);
  if (file_.valid() && found.st_ino == inode_ && found.st_size >= offset_) return absl::OkStatus();
  // O_NONBLOCK: the path may be a pipe, and opening a pipe would wait for a writer.
  file_ = FileDescriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file_.valid()) return ErrnoStatus(errno, path_);
  if (fstat(file_.get(), &found) != 0) return ErrnoStatus(errno, path_);
  if (!S_ISREG(found.st_mode)) {
    file_.Close();
    return absl::InvalidArgumentError(absl::StrCat(path_, " is not a file"));
  }
  inode_ = found.st_ino;
  offset_ = 0;
  unreadable_ = 0;
  pending_.clear();
  restart();
  return absl::OkStatus();
}

void ProgressReader::TakeLines(const std::function<void(const proto::ProgressEvent&)>& take) {
  google::protobuf::util::JsonParseOptions json;
  json.ignore_unknown_fields = true;
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (end == begin) continue;
    proto::ProgressEvent event;
    const std::string line = pending_.substr(begin, end - begin);
    const bool parsed = google::protobuf::util::JsonStringToMessage(line, &event, json).ok();
    if (parsed && event.event_case() != proto::ProgressEvent::EVENT_NOT_SET) {
      take(event);
    } else {
      ++unreadable_;
    }
  }
  pending_.erase(0, begin);
  // If the incomplete line is too long already, its beginning is replaced by "-". So the line does not begin
  // with a brace and cannot be taken for an event.
  if (static_cast<int64_t>(pending_.size()) > kMostLineBytes) pending_ = "-";
}

}  // namespace tethys
