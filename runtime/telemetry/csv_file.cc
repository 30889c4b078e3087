#include "runtime/telemetry/csv_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/state_check.h"

namespace tethys {
namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr int64_t kMostHeaderBytes = 1 << 16;
constexpr int64_t kPieceBytes = 1 << 20;
// The most bytes of unwritten lines in a saved state.
constexpr int64_t kMostSavedBytes = 1 << 20;

// The first line of the file without its line end. Empty: the file is empty, or the line is too long for a
// header.
absl::StatusOr<std::string> FirstLine(const std::string& path, int fd) {
  const int64_t size = std::min<int64_t>(kMostHeaderBytes, lseek(fd, 0, SEEK_END));
  if (size <= 0) return std::string();
  std::string text(static_cast<size_t>(size), '\0');
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd, text.data(), size, 0, path));
  const size_t end = text.find('\n');
  return end == std::string::npos ? std::string() : text.substr(0, end);
}

// Reads the table line by line, without holding the whole table. `take` gets each line that has a cell for
// every column.
absl::Status ReadLines(const std::string& path, const std::string& header,
                       absl::FunctionRef<absl::Status(const CsvReader&)> take) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  const int64_t size = lseek(fd.get(), 0, SEEK_END);
  std::string text = absl::StrCat(header, "\n");
  for (int64_t at = static_cast<int64_t>(text.size()); at < size;) {
    const int64_t count = std::min(kPieceBytes, size - at);
    const size_t before = text.size();
    text.resize(before + static_cast<size_t>(count));
    TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd.get(), text.data() + before, count, at, path));
    at += count;
    const size_t end = at == size ? text.size() : text.rfind('\n') + 1;
    for (CsvReader line(absl::string_view(text).substr(0, end)); line.Next();) {
      TETHYS_RETURN_IF_ERROR(take(line));
    }
    text.erase(header.size() + 1, end - header.size() - 1);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvFile>> CsvFile::Open(const std::string& path, const std::string& header,
                                                       Stays stays) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file, AppendFile::OpenLines(path));
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  const bool empty = lseek(fd.get(), 0, SEEK_END) <= 0;
  if (empty) TETHYS_RETURN_IF_ERROR(file->Append(absl::StrCat(header, "\n")));
  std::string found = header;
  if (!empty) {
    TETHYS_ASSIGN_OR_RETURN(found, FirstLine(path, fd.get()));
  }

  std::vector<std::string> columns = absl::StrSplit(header, ',');
  const std::vector<std::string> there = absl::StrSplit(absl::StripSuffix(found, "\r"), ',');
  if (std::find(there.begin(), there.end(), columns[0]) == there.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no table of a run: its first line names no column \"", columns[0],
                     "\"; move this file away"));
  }
  const size_t known = columns.size();
  for (const std::string& name : there) {
    if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  }
  const size_t others = columns.size() - known;
  return std::unique_ptr<CsvFile>(
      new CsvFile(std::move(file), path, found, std::move(columns), others, std::move(stays)));
}

CsvFile::CsvFile(std::unique_ptr<AppendFile> file, const std::string& path, const std::string& found,
                 std::vector<std::string> columns, size_t others, Stays stays)
    : path_(path),
      found_(found),
      columns_(std::move(columns)),
      other_cells_(others, ','),
      stays_(std::move(stays)),
      file_(std::move(file)),
      queue_({.name = path}, [this](absl::string_view lines) { return Write(lines); }) {}

absl::Status CsvFile::Save(proto::AppendedState& state) {
  TETHYS_ASSIGN_OR_RETURN(const AppendQueue::Progress progress, queue_.GetProgress(kMostSavedBytes));
  const int64_t begin = begin_.load();  // mu_ is held while the disk is waited for.
  if (begin < 0) return absl::UnavailableError(absl::StrCat(path_, " is not begun"));
  state.set_bytes(begin + progress.written);
  state.set_unwritten(absl::StrCat(progress.unwritten, buffer_));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CsvFile>> CsvFile::Restore(const std::string& path, const std::string& header,
                                                          const proto::AppendedState& state) {
  StateCheck check;
  check.Count(path, state.bytes());
  check.That(state.unwritten().empty() || state.unwritten().back() == '\n', path, ": a line has no end");
  TETHYS_RETURN_IF_ERROR(check.status());
  const absl::StatusOr<int64_t> length = FileBytes(path);
  if (!length.ok() || *length < state.bytes()) {
    return absl::DataLossError(absl::StrCat(path, " is shorter than the lost chief left it"));
  }
  if (truncate(path.c_str(), state.bytes()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot shorten ", path));
  }
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<CsvFile> table, Open(path, header));
  TETHYS_RETURN_IF_ERROR(table->Begin());
  table->buffer_ = state.unwritten();
  TETHYS_RETURN_IF_ERROR(table->HandOn());
  return table;
}

absl::Status CsvFile::Begin() {
  MutexLock lock(mu_);
  return Prepare();
}

absl::Status CsvFile::Write(absl::string_view lines) {
  MutexLock lock(mu_);
  TETHYS_RETURN_IF_ERROR(Prepare());
  return file_->Append(lines);
}

absl::Status CsvFile::Prepare() {
  if (prepared_) return absl::OkStatus();
  bool changes = found_ != absl::StrJoin(columns_, ",");
  // `path_` may be a link; the file that it points to is rewritten.
  std::error_code error;
  const std::string path = std::filesystem::canonical(path_, error).string();
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot find ", path_));
  if (!changes && stays_ != nullptr) {
    TETHYS_ASSIGN_OR_RETURN(changes, AnyUndone(path));
  }
  if (changes) {
    const std::string copy = path + ".tmp";
    absl::Status copied = WriteCopy(path, copy);
    if (copied.ok() && std::rename(copy.c_str(), path.c_str()) != 0) {
      copied = ErrnoStatus(errno, absl::StrCat("cannot rename ", copy, " to ", path));
    }
    if (!copied.ok()) {
      unlink(copy.c_str());
      return copied;
    }
    TETHYS_ASSIGN_OR_RETURN(file_, AppendFile::OpenLines(path));
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t begin, FileBytes(path));
  begin_.store(begin);
  prepared_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> CsvFile::AnyUndone(const std::string& path) const {
  bool any = false;
  TETHYS_RETURN_IF_ERROR(ReadLines(path, found_, [&](const CsvReader& line) {
    any = any || !stays_(line);
    return absl::OkStatus();
  }));
  return any;
}

absl::Status CsvFile::WriteCopy(const std::string& path, const std::string& copy) const {
  FileDescriptor fd(open(copy.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", copy));
  std::string lines = absl::StrCat(absl::StrJoin(columns_, ","), "\n");
  const auto write = [&] {
    const absl::Status written = WriteFully(fd.get(), lines.data(), static_cast<int64_t>(lines.size()), copy);
    lines.clear();
    return written;
  };
  TETHYS_RETURN_IF_ERROR(ReadLines(path, found_, [&](const CsvReader& line) {
    if (stays_ != nullptr && !stays_(line)) return absl::OkStatus();
    for (size_t i = 0; i < columns_.size(); ++i) {
      absl::StrAppend(&lines, i == 0 ? "" : ",", line.Text(columns_[i]));
    }
    lines += '\n';
    return static_cast<int64_t>(lines.size()) < kPieceBytes ? absl::OkStatus() : write();
  }));
  TETHYS_RETURN_IF_ERROR(write());
  if (fdatasync(fd.get()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", copy));
  return absl::OkStatus();
}

absl::Status CsvFile::AddLine(absl::string_view line) {
  absl::StrAppend(&buffer_, line, other_cells_, "\n");
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : HandOn();
}

absl::Status CsvFile::HandOn() {
  queue_.Append(buffer_);
  buffer_.clear();
  return queue_.TakeError();
}

absl::Status CsvFile::Flush() {
  absl::Status status = HandOn();
  status.Update(queue_.Flush());
  return status;
}

}  // namespace tethys
