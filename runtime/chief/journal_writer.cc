#include "runtime/chief/journal_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/state_check.h"

namespace tethys {
namespace {

// The most bytes of the journal (about a million lines) that are kept in memory while the file cannot be
// written.
constexpr int64_t kMostUnwrittenBytes = int64_t{64} << 20;
// The most bytes of unwritten lines in a saved state.
constexpr int64_t kMostSavedBytes = 1 << 20;

}  // namespace

JournalWriter::JournalWriter(std::unique_ptr<AppendFile> file, std::string path, int64_t length,
                             std::string written)
    : path_(std::move(path)),
      begin_(length - static_cast<int64_t>(written.size())),
      length_(length),
      written_(std::move(written)),
      file_(std::move(file)),
      queue_({.name = "the journal", .most_bytes = kMostUnwrittenBytes, .retry = true},
             [this](absl::string_view lines) { return file_->Append(lines); }) {}

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Begin(const std::string& path,
                                                                    const std::string& attempt) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file, AppendFile::OpenLines(path));
  TETHYS_RETURN_IF_ERROR(file->Append(attempt));
  TETHYS_ASSIGN_OR_RETURN(const int64_t length, FileBytes(path));
  std::unique_ptr<JournalWriter> writer(new JournalWriter(std::move(file), path, length, ""));
  // Flush returns the error if the queue's thread could not be started. The job then fails before it trains.
  TETHYS_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Continue(const std::string& path,
                                                                       int64_t begin) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> file, AppendFile::OpenLines(path));
  TETHYS_ASSIGN_OR_RETURN(const int64_t end, FileBytes(path));
  if (begin < 0 || end < begin) {
    return absl::DataLossError(absl::StrCat(path, " is shorter than the lost chief left it"));
  }
  // Only the attempt's lines are read, because the journal of a long run is large.
  std::string lines(end - begin, '\0');
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  TETHYS_RETURN_IF_ERROR(ReadFullyAt(fd.get(), lines.data(), end - begin, begin, path));
  std::unique_ptr<JournalWriter> writer(new JournalWriter(std::move(file), path, end, std::move(lines)));
  TETHYS_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

absl::Status JournalWriter::Save(proto::AppendedState& state) {
  if (differs_ || known_ < written_.size()) {
    return absl::FailedPreconditionError(absl::StrCat(path_, " has lines that have not come again"));
  }
  TETHYS_ASSIGN_OR_RETURN(const AppendQueue::Progress progress, queue_.GetProgress(kMostSavedBytes));
  state.set_bytes(length_ + progress.written);
  state.set_unwritten(absl::StrCat(progress.unwritten, buffer_));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Restore(const std::string& path,
                                                                      const proto::AppendedState& state) {
  StateCheck check;
  check.Count(path, state.bytes());
  TETHYS_RETURN_IF_ERROR(check.status());
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<JournalWriter> writer, Continue(path, state.bytes()));
  writer->Add(state.unwritten());
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
