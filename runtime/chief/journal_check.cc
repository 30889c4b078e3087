#include "runtime/chief/journal_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/types/optional.h"
#include "runtime/base/file.h"
#include "runtime/chief/interval_set.h"

namespace tethys::journal {
namespace {

// Bounds all numbers in a journal, and positions over the whole job, so that sums of two numbers do not
// overflow.
constexpr int64_t kMaxNumber = int64_t{1} << 61;
// The most workers or servers that the check accepts in one attempt; job files allow fewer.
constexpr int64_t kMaxTasks = 1 << 16;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

constexpr size_t kReadBytes = 1 << 20;
// The longest line that the check accepts. No line of a journal is longer, because a task's text comes in a
// message of at most 4 MiB.
constexpr size_t kMaxLineBytes = 16 << 20;

// ---------------------------------------------------------------------------------------------- reading

// The lines of a text, which can be read again after Rewind. A last line without its newline does not count.
class Lines {
 public:
  virtual ~Lines() = default;
  virtual absl::Status Rewind() = 0;
  // The next line, valid until the next call; absent if no line is left.
  virtual absl::StatusOr<absl::optional<absl::string_view>> Next() = 0;
};

class TextLines final : public Lines {
 public:
  explicit TextLines(absl::string_view text) : text_(text) {}

  absl::Status Rewind() override {
    at_ = 0;
    return absl::OkStatus();
  }
  absl::StatusOr<absl::optional<absl::string_view>> Next() override {
    const size_t end = text_.find('\n', at_);
    if (end == absl::string_view::npos) return absl::optional<absl::string_view>();
    const absl::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    return absl::optional<absl::string_view>(line);
  }

 private:
  const absl::string_view text_;
  size_t at_ = 0;
};

class FileLines final : public Lines {
 public:
  static absl::StatusOr<std::unique_ptr<FileLines>> Open(const std::string& path) {
    FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const off_t size = fd.valid() ? lseek(fd.get(), 0, SEEK_END) : -1;
    if (size < 0) return Unreadable(path);
    return std::unique_ptr<FileLines>(new FileLines(std::move(fd), size, path));
  }

  absl::Status Rewind() override {
    if (lseek(fd_.get(), 0, SEEK_SET) != 0) return Unreadable(path_);
    left_ = size_;
    begin_ = end_ = 0;
    return absl::OkStatus();
  }
  absl::StatusOr<absl::optional<absl::string_view>> Next() override {
    size_t searched = begin_;
    while (true) {
      const absl::string_view text(buffer_.data(), end_);
      const size_t line_end = text.find('\n', searched);
      if (line_end != absl::string_view::npos) {
        const absl::string_view line = text.substr(begin_, line_end - begin_);
        begin_ = line_end + 1;
        return absl::optional<absl::string_view>(line);
      }
      searched = end_ - begin_;
      if (left_ == 0) return absl::optional<absl::string_view>();
      TETHYS_RETURN_IF_ERROR(ReadMore());
    }
  }

 private:
  FileLines(FileDescriptor fd, int64_t size, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)), size_(size), buffer_(kReadBytes, '\0') {}

  static absl::Status Unreadable(const std::string& path) {
    return absl::UnavailableError(ErrnoStatus(errno, absl::StrCat("cannot read ", path)).message());
  }

  // Moves the unread bytes to the buffer's front and appends more.
  absl::Status ReadMore() {
    std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    if (end_ == buffer_.size()) {
      if (buffer_.size() >= kMaxLineBytes) {
        return absl::DataLossError(absl::StrCat(path_, " has a line of more than ", kMaxLineBytes, " bytes"));
      }
      buffer_.resize(2 * buffer_.size());
    }
    const size_t room = std::min<int64_t>(left_, static_cast<int64_t>(buffer_.size() - end_));
    ssize_t got;
    do {
      got = read(fd_.get(), buffer_.data() + end_, room);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return Unreadable(path_);
    if (got == 0) return absl::UnavailableError(absl::StrCat(path_, " was cut off while it was read"));
    end_ += got;
    left_ -= got;
    return absl::OkStatus();
  }

  const FileDescriptor fd_;
  const std::string path_;
  const int64_t size_;
  int64_t left_ = 0;  // Bytes not read yet.
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // The unread bytes of the buffer.
};

// ---------------------------------------------------------------------------------------------- a line

// The words of a line, one after the other.
class Words {
 public:
  Words(absl::string_view line, int64_t number) : rest_(line), number_(number) {}

  // The next word; empty if no word is left.
  absl::string_view Next() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const absl::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++index_;
    return word;
  }
  bool more() const { return !rest_.empty(); }

  absl::StatusOr<int64_t> Number(int64_t most = kMaxNumber) {
    const absl::string_view word = Next();
    int64_t value = 0;
    for (const char c : word) {
      const int digit = c - '0';
      if (digit < 0 || digit > 9 || value > (most - digit) / 10) return Refuse(most);
      value = 10 * value + digit;
    }
    if (word.empty()) return Refuse(most);
    return value;
  }

  // Converts an epoch and a position in it into a position over the whole job.
  absl::StatusOr<int64_t> Position(absl::StatusOr<int64_t> epoch, absl::StatusOr<int64_t> position,
                                   int64_t samples_per_epoch) const {
    TETHYS_RETURN_IF_ERROR(epoch.status());
    TETHYS_RETURN_IF_ERROR(position.status());
    if (samples_per_epoch == 0 || *epoch > (kMaxNumber - *position) / samples_per_epoch) {
      return absl::DataLossError(absl::StrCat("journal line ", number_, ": there is no position ", *position,
                                              " of epoch ", *epoch, " in epochs of ", samples_per_epoch,
                                              " samples"));
    }
    return *epoch * samples_per_epoch + *position;
  }

 private:
  absl::Status Refuse(int64_t most) const {
    return absl::DataLossError(
        absl::StrCat("journal line ", number_, ": field ", index_ - 1, " is not a number from 0 to ", most));
  }

  absl::string_view rest_;
  const int64_t number_;
  int index_ = 0;
};

// ------------------------------------------------------------------------------------------- an attempt

// The fields of a line "attempt STEP EPOCH POSITION SAMPLES WORKERS SERVERS STRATEGY" that the check needs.
struct AttemptLine {
  int64_t epoch = 0;
  int64_t position = 0;  // The position within that epoch.
  int64_t start = 0;     // The starting position. It counts over the whole job, as do all positions below.
  int64_t samples_per_epoch = 0;
  int64_t servers = 0;

  // Parses the words of an attempt line. Requires that the first word, "attempt", was already taken.
  static absl::StatusOr<AttemptLine> Parse(Words& words) {
    AttemptLine line;
    words.Next();
    TETHYS_ASSIGN_OR_RETURN(line.epoch, words.Number());
    TETHYS_ASSIGN_OR_RETURN(line.position, words.Number());
    TETHYS_ASSIGN_OR_RETURN(line.samples_per_epoch, words.Number());
    TETHYS_ASSIGN_OR_RETURN(line.start, words.Position(line.epoch, line.position, line.samples_per_epoch));
    TETHYS_RETURN_IF_ERROR(words.Number(kMaxTasks).status());  // The number of workers.
    TETHYS_ASSIGN_OR_RETURN(line.servers, words.Number(kMaxTasks));
    return line;
  }
};

// The samples used in one attempt up to `cut`, where a later attempt starts; kNever: no later attempt.
class Attempt {
 public:
  Attempt(const AttemptLine& line, int64_t cut) : line_(line), cut_(cut) {}

  // Takes a line of the attempt; called for each line after the first. `kind` is the first word of the line.
  absl::Status Take(absl::string_view kind, Words& words, int64_t number) {
    if (kind == "used") return TakeUse(words, number, 1, nullptr);
    if (kind == "applied") return TakeUse(words, number, 2, &applied_);
    if (kind == "torn") return TakeTorn(words, number);
    if (kind == "epoch") {
      TETHYS_ASSIGN_OR_RETURN(const int64_t epoch, words.Number());
      TETHYS_ASSIGN_OR_RETURN(epoch_end_[epoch], words.Number(line_.samples_per_epoch));
    } else if (kind == "end") {
      const absl::StatusOr<int64_t> epoch = words.Number();
      const absl::StatusOr<int64_t> position = words.Number();
      TETHYS_ASSIGN_OR_RETURN(end_, words.Position(epoch, position, line_.samples_per_epoch));
    }
    return absl::OkStatus();
  }

  bool ended() const { return end_ >= 0; }
  // Checks the attempt and returns the number of samples used. Requires that all its lines were taken.
  absl::StatusOr<int64_t> Finish() {
    TETHYS_RETURN_IF_ERROR(CheckCover(used_, "the workers"));
    for (int64_t server = 0; server < line_.servers; ++server) {
      const std::string who = absl::StrCat("ps ", server);
      // A batch is torn if a worker was lost during its push, so that only some servers applied it. For a
      // server that did not apply a torn batch, the batch counts as applied.
      IntervalSet applied = std::exchange(applied_[server], {});
      for (const auto& [interval, servers] : torn_) {
        if (servers.count(server) > 0) continue;
        TETHYS_RETURN_IF_ERROR(Add(applied, interval.first, interval.second, who));
      }
      TETHYS_RETURN_IF_ERROR(CheckCover(applied, who));
    }
    return used_.count();
  }

 private:
  // Takes a line `used` or `applied`. `skipped`: the number of words between the worker's or server's index
  // and BEGIN.
  absl::Status TakeUse(Words& words, int64_t number, int skipped, std::map<int64_t, IntervalSet>* servers) {
    TETHYS_ASSIGN_OR_RETURN(const int64_t who, words.Number());
    for (int i = 0; i < skipped; ++i) words.Next();
    TETHYS_ASSIGN_OR_RETURN(const int64_t begin, words.Number());
    TETHYS_ASSIGN_OR_RETURN(const int64_t count, words.Number());
    TETHYS_ASSIGN_OR_RETURN(const bool counts, Counts(begin, count, number));
    if (!counts) return absl::OkStatus();
    if (servers == nullptr) return Add(used_, begin, begin + count, "the workers");
    return Add((*servers)[who], begin, begin + count, absl::StrCat("ps ", who));
  }

  // True if the use of samples [begin, begin + count) counts: the range is not empty and was not undone.
  absl::StatusOr<bool> Counts(int64_t begin, int64_t count, int64_t number) const {
    if (count == 0 || begin >= cut_) return false;
    if (count <= line_.samples_per_epoch - begin % line_.samples_per_epoch && begin + count <= cut_) {
      return true;
    }
    return absl::DataLossError(
        absl::StrCat("journal line ", number, ": ", count, " samples from ", PositionText(begin),
                     " extend beyond the epoch's end or beyond the start of a later attempt"));
  }

  absl::Status TakeTorn(Words& words, int64_t number) {
    words.Next();
    TETHYS_ASSIGN_OR_RETURN(const int64_t begin, words.Number());
    TETHYS_ASSIGN_OR_RETURN(const int64_t count, words.Number());
    std::set<int64_t> servers;
    while (words.more()) {
      TETHYS_ASSIGN_OR_RETURN(const int64_t server, words.Number());
      servers.insert(server);
    }
    TETHYS_ASSIGN_OR_RETURN(const bool counts, Counts(begin, count, number));
    if (counts) torn_.push_back({{begin, begin + count}, std::move(servers)});
    return absl::OkStatus();
  }

  absl::Status Add(IntervalSet& set, int64_t begin, int64_t end, absl::string_view who) const {
    const int64_t twice = set.Add(begin, end);
    if (twice == IntervalSet::kNone) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(PositionText(twice), " was used twice by ", who));
  }

  // The end of the samples that `epoch` must use. If drop_remainder dropped the last samples of the epoch,
  // the end lies before them.
  int64_t RequiredEnd(int64_t epoch) const {
    const auto closed = epoch_end_.find(epoch);
    const int64_t length = closed == epoch_end_.end() ? line_.samples_per_epoch : closed->second;
    return epoch * line_.samples_per_epoch + length;
  }

  // Checks that all samples from the start to the end of the attempt were used, and no other samples. The
  // attempt ends at its cut or at its line `end`. An attempt without a cut or an end may lack any sample, so
  // it always passes.
  absl::Status CheckCover(const IntervalSet& found, const std::string& who) const {
    const int64_t end = cut_ != kNever ? cut_ : end_;
    if (end < 0) return absl::OkStatus();
    auto next = found.intervals().begin();
    const auto last = found.intervals().end();
    int64_t done = 0;  // All positions before this one are checked.
    for (int64_t begin = line_.start; begin < end;) {
      const int64_t epoch = begin / line_.samples_per_epoch;
      const int64_t required = std::max(begin, std::min(end, RequiredEnd(epoch)));
      if (required > begin) {
        if (next == last || next->first > begin) return Missing(begin, who);
        if (std::max(next->first, done) < begin) return Surplus(std::max(next->first, done), who);
        if (next->second < required) return Missing(next->second, who);
        if (next->second == required) ++next;
        done = required;
      }
      begin = (epoch + 1) * line_.samples_per_epoch;
    }
    return next == last ? absl::OkStatus() : Surplus(std::max(next->first, done), who);
  }

  absl::Status Missing(int64_t at, const std::string& who) const {
    return absl::DataLossError(absl::StrCat(PositionText(at), " was not used by ", who));
  }
  absl::Status Surplus(int64_t at, const std::string& who) const {
    return absl::DataLossError(
        absl::StrCat(PositionText(at), " was used by ", who, ", though it should not have been used"));
  }
  std::string PositionText(int64_t at) const {
    return absl::StrCat("position ", at % line_.samples_per_epoch, " of epoch ",
                        at / line_.samples_per_epoch);
  }

  const AttemptLine line_;
  const int64_t cut_;
  IntervalSet used_;
  std::map<int64_t, IntervalSet> applied_;  // For each server, the samples that it applied.
  // Torn batches, with the servers that applied them.
  std::vector<std::pair<std::pair<int64_t, int64_t>, std::set<int64_t>>> torn_;
  // For each epoch that was closed in this attempt, the position before which all positions are used.
  std::map<int64_t, int64_t> epoch_end_;
  int64_t end_ = -1;  // Position at which the job ended; -1: the job did not succeed.
};

constexpr absl::string_view kAttemptWord = "attempt ";

// Returns for each attempt the earliest position at which a later attempt starts (kNever for the last
// attempt); the attempt's uses from that position on are undone. Epochs of a later attempt may have another
// length, so starts are compared by epoch first.
absl::StatusOr<std::vector<int64_t>> FindCuts(Lines& lines) {
  std::vector<std::pair<AttemptLine, Words>> attempts;
  TETHYS_RETURN_IF_ERROR(lines.Rewind());
  for (int64_t number = 1;; ++number) {
    TETHYS_ASSIGN_OR_RETURN(const absl::optional<absl::string_view> line, lines.Next());
    if (!line.has_value()) break;
    if (!absl::StartsWith(*line, kAttemptWord)) continue;
    Words words(*line, number);
    words.Next();
    TETHYS_ASSIGN_OR_RETURN(const AttemptLine attempt, AttemptLine::Parse(words));
    attempts.push_back({attempt, Words("", number)});
  }
  std::vector<int64_t> cuts(attempts.size(), kNever);
  if (attempts.empty()) return cuts;
  std::pair<int64_t, int64_t> earliest = {attempts.back().first.epoch, attempts.back().first.position};
  for (size_t i = attempts.size() - 1; i-- > 0;) {
    const auto& [attempt, words] = attempts[i];
    TETHYS_ASSIGN_OR_RETURN(
        cuts[i], words.Position(earliest.first, std::min(earliest.second, attempt.samples_per_epoch),
                                attempt.samples_per_epoch));
    earliest = std::min(earliest, {attempt.epoch, attempt.position});
  }
  return cuts;
}

absl::StatusOr<CheckResult> CheckLines(Lines& lines) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<int64_t> cuts, FindCuts(lines));
  CheckResult result;
  absl::optional<Attempt> attempt;
  const auto finish = [&]() -> absl::Status {
    if (!attempt.has_value()) return absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(const int64_t samples, attempt->Finish());
    if (samples > kMaxNumber - result.samples) {
      return absl::DataLossError(absl::StrCat("attempt ", result.attempts, " of the journal uses ", samples,
                                              " samples, too many to count"));
    }
    result.samples += samples;
    result.ended = attempt->ended();
    return absl::OkStatus();
  };
  TETHYS_RETURN_IF_ERROR(lines.Rewind());
  int64_t number = 0;
  while (true) {
    TETHYS_ASSIGN_OR_RETURN(const absl::optional<absl::string_view> line, lines.Next());
    if (!line.has_value()) break;
    Words words(*line, ++number);
    const absl::string_view kind = words.Next();
    if (kind == "attempt") {
      TETHYS_RETURN_IF_ERROR(finish());
      TETHYS_ASSIGN_OR_RETURN(const AttemptLine start, AttemptLine::Parse(words));
      attempt.emplace(start, cuts[result.attempts++]);
    } else if (attempt.has_value()) {
      TETHYS_RETURN_IF_ERROR(attempt->Take(kind, words, number));
    } else {
      return absl::DataLossError(absl::StrCat("journal line ", number, " comes before any attempt"));
    }
  }
  if (number == 0) return absl::DataLossError("the journal is empty");
  TETHYS_RETURN_IF_ERROR(finish());
  return result;
}

}  // namespace

absl::StatusOr<CheckResult> Check(absl::string_view text) {
  TextLines lines(text);
  return CheckLines(lines);
}

absl::StatusOr<CheckResult> CheckFile(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<FileLines> lines, FileLines::Open(path));
  return CheckLines(*lines);
}

}  // namespace tethys::journal
