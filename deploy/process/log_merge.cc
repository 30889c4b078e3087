#include "deploy/process/log_merge.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "deploy/process/log_line.h"

namespace tethys {
namespace {

constexpr absl::string_view kSuffix = ".log";
constexpr size_t kPieceBytes = 64 << 10;

// Appends the next bytes of the file, at most kPieceBytes. Returns false if there are none.
absl::StatusOr<bool> ReadPiece(int file, const std::string& path, std::string& bytes) {
  char piece[kPieceBytes];
  ssize_t got;
  do {
    got = read(file, piece, sizeof(piece));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
  bytes.append(piece, static_cast<size_t>(got));
  return got > 0;
}

}  // namespace

std::string ProcessOfLog(const std::string& file) {
  const std::string name(absl::StripSuffix(file, kSuffix));
  if (name == "chief-0") return "chief";
  for (const absl::string_view role : {"worker", "ps"}) {
    const std::string prefix = absl::StrCat(role, "-");
    if (absl::StartsWith(name, prefix)) return absl::StrCat(role, " ", name.substr(prefix.size()));
  }
  return name;
}

absl::Status LogMerge::AddFolder(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  TETHYS_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (!absl::EndsWith(name, kSuffix) || logs_.count(path) > 0) continue;
    TETHYS_RETURN_IF_ERROR(Add(path, ProcessOfLog(name)));
  }
  return absl::OkStatus();
}

absl::Status LogMerge::Add(const std::string& path, const std::string& process) {
  // O_NONBLOCK: the path may be a pipe, and opening a pipe would wait for a writer.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  }
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  Log& log = logs_[path];
  log.path = path;
  log.process = process;
  log.file = std::move(file);
  return absl::OkStatus();
}

absl::StatusOr<bool> LogMerge::FindLine(bool ended, Log& log) {
  while (true) {
    const size_t end = log.bytes.find('\n', log.begin);
    const size_t size = std::min(end, log.bytes.size()) - log.begin;
    if (end != std::string::npos || size >= kMaxLineBytes) {
      const size_t taken = std::min(size, kMaxLineBytes);
      log.line = log.bytes.substr(log.begin, taken);
      log.begin += taken + (taken == size && end != std::string::npos ? 1 : 0);
      break;
    }
    log.bytes.erase(0, std::exchange(log.begin, 0));
    TETHYS_ASSIGN_OR_RETURN(const bool more, ReadPiece(log.file.get(), log.path, log.bytes));
    if (more) continue;
    if (!ended || log.bytes.empty()) return false;
    log.line = std::exchange(log.bytes, "");
    break;
  }
  // A time that goes back, as local time does in autumn, does not change the order within a log.
  log.time = std::max(log.time, std::string(LogLineTime(log.line)));
  return true;
}

absl::Status LogMerge::ShowNew(bool ended) {
  std::vector<Log*> ready;  // The logs that have a line.
  for (auto& [path, log] : logs_) {
    TETHYS_ASSIGN_OR_RETURN(const bool found, FindLine(ended, log));
    if (found) ready.push_back(&log);
  }
  while (!ready.empty()) {
    const auto next = std::min_element(ready.begin(), ready.end(),
                                       [](const Log* a, const Log* b) { return a->time < b->time; });
    show_(ShownLogLine((*next)->process, (*next)->line));
    TETHYS_ASSIGN_OR_RETURN(const bool found, FindLine(ended, **next));
    if (!found) ready.erase(next);
  }
  return absl::OkStatus();
}

}  // namespace tethys
