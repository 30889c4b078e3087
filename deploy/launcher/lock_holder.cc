#include "deploy/launcher/lock_holder.h"

#include <signal.h>
#include <sys/stat.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {
namespace {

constexpr int64_t kMostLocksBytes = int64_t{1} << 20;

bool HasOpen(int64_t process, const struct stat& file) {
  const std::string folder = absl::StrCat("/proc/", process, "/fd");
  const absl::StatusOr<std::vector<std::string>> descriptors = ListDirectory(folder);
  if (!descriptors.ok()) return false;
  for (const std::string& descriptor : *descriptors) {
    struct stat open_file;
    if (stat(absl::StrCat(folder, "/", descriptor).c_str(), &open_file) != 0) continue;
    if (open_file.st_dev == file.st_dev && open_file.st_ino == file.st_ino) return true;
  }
  return false;
}

}  // namespace

// A line of /proc/locks is "1: FLOCK  ADVISORY  WRITE 26464 fe:00:11198625 0 EOF", with "->" after "1:" if
// the process waits for the lock.
std::vector<int64_t> ExclusiveLockers(absl::string_view proc_locks, uint64_t inode) {
  std::vector<int64_t> processes;
  for (const absl::string_view line : absl::StrSplit(proc_locks, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 6 || words[1] != "FLOCK" || words[3] != "WRITE") continue;
    const std::vector<absl::string_view> file = absl::StrSplit(words[5], ':');
    int64_t process = 0;
    uint64_t number = 0;
    if (file.size() != 3 || !absl::SimpleAtoi(file[2], &number) || number != inode) continue;
    if (absl::SimpleAtoi(words[4], &process) && process > 0) processes.push_back(process);
  }
  return processes;
}

absl::optional<int64_t> LockHolder(const std::string& file) {
  struct stat facts;
  if (stat(file.c_str(), &facts) != 0) return absl::nullopt;
  const absl::StatusOr<std::string> locks = ReadFile("/proc/locks", kMostLocksBytes);
  if (!locks.ok()) return absl::nullopt;
  // For some file systems, /proc/locks shows another device than stat() does, and inode numbers are unique
  // only within a device. So HasOpen checks which process has this file open.
  for (const int64_t process : ExclusiveLockers(*locks, facts.st_ino)) {
    if (HasOpen(process, facts)) return process;
  }
  return absl::nullopt;
}

bool TakesTermination(absl::string_view proc_status) {
  for (absl::string_view line : absl::StrSplit(proc_status, '\n')) {
    if (!absl::ConsumePrefix(&line, "SigBlk:") && !absl::ConsumePrefix(&line, "SigCgt:")) continue;
    uint64_t signals = 0;
    if (absl::SimpleHexAtoi(absl::StripAsciiWhitespace(line), &signals) &&
        (signals >> (SIGTERM - 1)) % 2 == 1) {
      return true;
    }
  }
  return false;
}

}  // namespace tethys
