#include "runtime/data/host_cache.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "runtime/base/home_folder.h"

namespace tethys {
namespace {

constexpr char kPartial[] = ".partial";
constexpr char kLock[] = ".lock";
constexpr int kPollMs = 20;  // The pause between two attempts to get a lock, in milliseconds.
constexpr int64_t kUnusedSeconds = 60 * 24 * 3600;
constexpr size_t kKeyDigits = 32;

struct Times {
  timespec modified = {};
  bool operator==(const Times& other) const {
    return modified.tv_sec == other.modified.tv_sec && modified.tv_nsec == other.modified.tv_nsec;
  }
};
Times TimesOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? Times{info.st_mtim} : Times();
}

// True if a name is KIND-KEY or KIND-KEY.SUFFIX, and not the name of a lock or of an unfinished entry. Other
// names occur, because the cache may lie in a folder that the job names, which may contain other files.
bool NamesAnEntry(absl::string_view name) {
  if (absl::EndsWith(name, kPartial) || absl::EndsWith(name, kLock)) return false;
  const size_t dash = name.find('-');
  if (dash == absl::string_view::npos) return false;
  const absl::string_view key = name.substr(dash + 1, kKeyDigits), rest = name.substr(dash + 1 + key.size());
  return key.size() == kKeyDigits && absl::c_all_of(key, absl::ascii_isxdigit) &&
         (rest.empty() || rest.front() == '.');
}

// The time, in seconds since 1970, at which the file, or a file in the folder, was last read or written.
int64_t LastUse(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return std::numeric_limits<int64_t>::max();
  if (!S_ISDIR(info.st_mode)) return std::max<int64_t>(info.st_atim.tv_sec, info.st_mtim.tv_sec);
  // The folder's own access time is not used, because listing it, as here, counts as an access.
  int64_t last = info.st_mtim.tv_sec;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
  if (!names.ok()) return std::numeric_limits<int64_t>::max();
  for (const std::string& name : *names) last = std::max(last, LastUse(absl::StrCat(path, "/", name)));
  return last;
}

absl::Status SyncPath(const std::string& path) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.valid() && fsync(fd.get()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot sync ", path));
}

}  // namespace

CacheKey& CacheKey::Add(absl::string_view field) {
  Add(static_cast<int64_t>(field.size()));
  Mix(field);
  return *this;
}

CacheKey& CacheKey::Add(int64_t number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  Mix({bytes, sizeof(bytes)});
  return *this;
}

void CacheKey::Mix(absl::string_view bytes) {
  constexpr absl::uint128 kPrime = absl::MakeUint128(uint64_t{1} << 24, 0x13b);
  for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * kPrime;
}

std::string CacheKey::text() const {
  return absl::StrCat(absl::Hex(absl::Uint128High64(hash_), absl::kZeroPad16),
                      absl::Hex(absl::Uint128Low64(hash_), absl::kZeroPad16));
}

// The file is removed while it is locked, so TryLock never locks a file that has lost its name.
CacheLock::~CacheLock() {
  if (file_.valid()) unlink(path_.c_str());
}

void CacheLock::ShowProgress() const { futimens(file_.get(), nullptr); }

absl::StatusOr<std::string> HostCache::FolderOf(const std::string& folder) {
  if (!folder.empty()) return folder;
  const absl::StatusOr<std::string> home = HomeFolder();
  if (!home.ok())
    return Annotate(home.status(), "data.cache_dir is not set, and the cache has no default folder");
  return absl::StrCat(*home, "/.cache/tethys/data");  // ~/.cache/tethys also has the folder of builds.
}

absl::StatusOr<HostCache> HostCache::Open(const std::string& folder, Nanoseconds patience) {
  TETHYS_ASSIGN_OR_RETURN(std::string path, FolderOf(folder));
  TETHYS_RETURN_IF_ERROR(Annotate(CreateDirectories(path), "the folder of the cache (data.cache_dir)"));
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return ErrnoStatus(errno, absl::StrCat("the folder of the cache (data.cache_dir), ", path));
  }
  HostCache cache(std::move(path), patience);
  cache.RemoveLeftovers();
  cache.RemoveUnused();
  return cache;
}

// Removes partial entries whose lock is free: the process that made such an entry has died.
void HostCache::RemoveLeftovers() const {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    absl::string_view entry = name;
    if (!absl::ConsumeSuffix(&entry, kPartial) && !absl::ConsumeSuffix(&entry, kLock)) continue;
    const auto lock = TryLock(entry);
    if (lock.ok() && lock->has_value()) {
      static_cast<void>(RemoveRecursively(absl::StrCat(PathOf(entry), kPartial)));
    }
  }
}

void HostCache::RemoveUnused() const {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder_);
  if (!names.ok()) return;
  const int64_t oldest = time(nullptr) - kUnusedSeconds;
  for (const std::string& name : *names) {
    if (!NamesAnEntry(name) || LastUse(PathOf(name)) >= oldest) continue;
    const auto lock = TryLock(name);
    if (lock.ok() && lock->has_value()) static_cast<void>(RemoveRecursively(PathOf(name)));
  }
}

absl::StatusOr<absl::optional<CacheLock>> HostCache::TryLock(absl::string_view name) const {
  const std::string path = absl::StrCat(PathOf(name), kLock);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path, " (data.cache_dir)"));
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return absl::optional<CacheLock>();
    return ErrnoStatus(errno, absl::StrCat("cannot lock ", path, " (data.cache_dir)"));
  }
  // The process that held the lock before may have removed the file between the call that opened the file and
  // the call that locked it.
  if (!IsOpenFile(file.get(), path)) return absl::optional<CacheLock>();
  const std::string number = absl::StrCat(getpid(), "\n");
  if (ftruncate(file.get(), 0) == 0) {
    static_cast<void>(WriteFullyAt(file.get(), number.data(), static_cast<int64_t>(number.size()), 0, path));
  }
  return absl::optional<CacheLock>(CacheLock(std::move(file), path));
}

absl::StatusOr<CacheLock> HostCache::Lock(const std::string& name) const {
  TETHYS_ASSIGN_OR_RETURN(absl::optional<CacheLock> lock, LockUnless(name, [] { return false; }));
  return *std::move(lock);
}

absl::StatusOr<absl::optional<CacheLock>> HostCache::LockUnless(const std::string& name,
                                                                absl::FunctionRef<bool()> there) const {
  const MonotonicClock clock;
  const std::string path = absl::StrCat(PathOf(name), kLock);
  Times seen = TimesOf(path);
  Nanoseconds since = clock.Now();
  while (true) {
    TETHYS_ASSIGN_OR_RETURN(absl::optional<CacheLock> lock, TryLock(name));
    if (lock.has_value()) return lock;
    if (there()) return absl::optional<CacheLock>();
    const Times now = TimesOf(path);
    if (!(now == seen)) {
      seen = now;
      since = clock.Now();
    }
    if (clock.Now() - since >= patience_) break;
    poll(nullptr, 0, kPollMs);
  }
  const absl::StatusOr<std::string> holder = ReadFile(path, 64);
  return absl::DeadlineExceededError(absl::StrCat(
      "process ", holder.ok() ? absl::StripSuffix(*holder, "\n") : "(unknown)", " on this host is making ",
      PathOf(name), " and has shown no progress for ", ToSeconds(patience_),
      " s: check what this process waits for, or end it, and start the job again"));
}

absl::StatusOr<std::string> HostCache::Entry(const std::string& name, Accept accept, Make make) const {
  const std::string path = PathOf(name), partial = absl::StrCat(path, kPartial);
  const auto there = [&] { return FileExists(path) && accept(path); };
  if (there()) return path;
  // Stops waiting for the lock as soon as the entry exists, so that all waiting processes can use the entry
  // at once, not one after the other.
  TETHYS_ASSIGN_OR_RETURN(const absl::optional<CacheLock> lock, LockUnless(name, there));
  if (!lock.has_value()) return path;
  // Another process may have made the entry while this process waited for the lock.
  if (FileExists(path)) {
    if (accept(path)) return path;
    TETHYS_RETURN_IF_ERROR(RemoveRecursively(path));
  }
  TETHYS_RETURN_IF_ERROR(RemoveRecursively(partial));
  absl::Status status = make(partial, [&lock] { lock->ShowProgress(); });
  if (status.ok()) status = SyncPath(partial);
  if (status.ok() && rename(partial.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, absl::StrCat("cannot rename ", partial));
  }
  if (status.ok()) status = SyncDirectory(folder_);
  if (status.ok()) return path;
  static_cast<void>(RemoveRecursively(partial));
  return status;
}

bool IsOpenFile(int fd, const std::string& path) {
  struct stat held, named;
  return fstat(fd, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

absl::Status ReserveInCache(int fd, int64_t size, const std::string& path) {
  int error = posix_fallocate(fd, 0, size);
  // Some file systems cannot reserve space. A full disk is then noticed only when the file is written.
  if (error == EOPNOTSUPP || error == EINVAL) error = ftruncate(fd, size) == 0 ? 0 : errno;
  if (error == 0) return absl::OkStatus();
  const absl::Status status = ErrnoStatus(error, absl::StrCat("cannot reserve ", size, " bytes"));
  return ExplainFullCache(status, path);
}

absl::Status ExplainFullCache(const absl::Status& status, const std::string& path) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat("the cache has no room for ", path, " (", status.message(),
                   "): free space there, or name a folder on a larger disk in data.cache_dir"));
}

}  // namespace tethys
