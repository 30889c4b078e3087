#include "runtime/chief/journal_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

// The most bytes of the journal (about a million lines) that are kept in memory while the file cannot be
// written.
constexpr int64_t kMostUnwrittenBytes = int64_t{64} << 20;

}  // namespace

JournalWriter::JournalWriter(std::unique_ptr<AppendFile> file, std::string path, int64_t begin,
                             std::string written)
    : path_(std::move(path)),
      begin_(begin),
      written_(std::move(written)),
      file_(std::move(file)),
      queue_({.name = "the journal", .most_bytes = kMostUnwrittenBytes, .retry = true},
             [this](absl::string_view lines) { return file_->Append(lines); }) {}

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Begin(const std::string& path,
                                                                    const std::string& attempt) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file, AppendFile::OpenLines(path));
  TETHYS_RETURN_IF_ERROR(file->Append(attempt));
  TETHYS_ASSIGN_OR_RETURN(const int64_t begin, FileBytes(path));
  std::unique_ptr<JournalWriter> writer(new JournalWriter(std::move(file), path, begin, ""));
  // Flush returns the error if the queue's thread could not be started. The job then fails before it trains.
  TETHYS_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Continue(const std::string& path,
                                                                       int64_t begin) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file, AppendFile::OpenLines(path));
  TETHYS_ASSIGN_OR_RETURN(const int64_t end, FileBytes(path));
  if (begin < 0 || end < begin) {
    return absl::DataLossError(absl::StrCat(path, " is shorter than it was when the attempt began"));
  }
  // Only the attempt's lines are read, because the journal of a long run is large.
  std::string lines(end - begin, '\0');
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd.get(), lines.data(), end - begin, begin, path));
  std::unique_ptr<JournalWriter> writer(new JournalWriter(std::move(file), path, begin, std::move(lines)));
  TETHYS_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

void JournalWriter::HandOn() {
  const absl::string_view lines = buffer_;
  const size_t known = std::min(lines.size(), written_.size() - known_);
  if (lines.substr(0, known) != absl::string_view(written_).substr(known_, known)) differs_ = true;
  known_ += known;
  queue_.Append(lines.substr(known));
  buffer_.clear();
}

absl::Status JournalWriter::CheckRepeated(bool all) const {
  if (!differs_ && (!all || known_ == written_.size())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, " and the log of the lost chief contradict each other"));
}

absl::Status JournalWriter::Sync() {
  const absl::Status kept = queue_.Flush();
  return kept.ok() ? file_->Sync() : kept;
}

}  // namespace tethys
