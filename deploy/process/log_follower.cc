#include "deploy/process/log_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "deploy/process/log_line.h"

namespace tethys {
namespace {

constexpr int64_t kTailBytes = 16 << 10;

}  // namespace

absl::Status LogFollower::Follow(const std::string& path, const std::string& label) {
  if (logs_.count(path) > 0) return absl::OkStatus();
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid() || lseek(fd.get(), 0, SEEK_END) < 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  }
  logs_[path] = {std::move(fd), label, ""};
  return absl::OkStatus();
}

void LogFollower::ShowNew() {
  for (auto& [path, log] : logs_) Look(log);
}

void LogFollower::ShowRest() {
  for (auto& [path, log] : logs_) {
    while (Look(log)) {
    }
    if (!log.pending.empty()) ShowPending(log);
  }
}

void LogFollower::ShowPending(Log& log) {
  show_(ShownLogLine(log.process, log.pending));
  log.pending.clear();
}

bool LogFollower::Look(Log& log) {
  char piece[kMaxLookBytes];
  ssize_t got;
  do {
    got = read(log.fd.get(), piece, sizeof(piece));
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  for (absl::string_view rest(piece, got); !rest.empty();) {
    const size_t end = rest.find('\n');
    const size_t room = kMaxLineBytes - log.pending.size();
    const size_t taken = std::min({end, room, rest.size()});
    absl::StrAppend(&log.pending, rest.substr(0, taken));
    rest.remove_prefix(taken);
    const bool ended = taken == end;
    if (ended) rest.remove_prefix(1);
    if (!ended && log.pending.size() < kMaxLineBytes) break;
    ShowPending(log);
  }
  return true;
}

std::string LogTail(const std::string& path, int lines, int64_t begin, const std::string& told) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return "";
  begin = std::max(begin, info.st_size - kTailBytes);
  if (begin >= info.st_size) return "";
  std::string text(info.st_size - begin, '\0');
  if (!ReadFullyAt(fd.get(), text.data(), text.size(), begin, path).ok()) return "";
  std::vector<std::string> all = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  const std::vector<std::string> told_lines = absl::StrSplit(told, '\n', absl::SkipWhitespace());
  const auto is_told = [&](const std::string& line) {
    return std::any_of(told_lines.begin(), told_lines.end(),
                       [&](const std::string& known) { return absl::StrContains(line, known); });
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_told), all.end());
  if (all.empty() || (all.size() == 1 && all[0].empty())) return "";
  const size_t first = all.size() > static_cast<size_t>(lines) ? all.size() - lines : 0;
  return absl::StrCat("    ", absl::StrJoin(all.begin() + first, all.end(), "\n    "), "\n");
}

}  // namespace tethys
