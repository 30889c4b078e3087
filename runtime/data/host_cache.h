// The host's cache: a folder whose entries are made once a host, by the process that comes first, and then
// read by all. An entry is a file or a folder and appears whole or not at all: it is made under a temporary
// name, synced and renamed. Entries are named by a hash of everything that determines what they hold
// (CacheKey), so an entry never becomes wrong. An entry that nothing has read for 60 days, as the file
// system's times of access tell, is removed when the cache is opened.
//
//   NAME           an entry
//   NAME.partial   an entry in the making
//   NAME.lock      held (flock) by the process that makes it, whose number it holds
//
// Blocking; thread-safe.
#ifndef TETHYS_RUNTIME_DATA_HOST_CACHE_H_
#define TETHYS_RUNTIME_DATA_HOST_CACHE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// A hash (FNV-1a, 128 bits) of fields in their order; for keys, not for secrets.
class CacheKey {
 public:
  // Fields of other lengths give other keys: "ab", "c" is not "a", "bc".
  CacheKey& Add(absl::string_view field);
  CacheKey& Add(int64_t number);
  // 32 hexadecimal digits.
  std::string text() const;

 private:
  void Mix(absl::string_view bytes);
  absl::uint128 hash_ = absl::MakeUint128(0x6c62272e07bb0142u, 0x62b821756295c58du);
};

// Held by one process of the host, or by one thread of it, until it is destroyed.
class CacheLock {
 public:
  CacheLock(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  ~CacheLock();
  CacheLock(CacheLock&&) noexcept = default;
  CacheLock& operator=(CacheLock&&) = delete;

  // Tells the processes that wait for the lock that this one makes progress. Any thread.
  void ShowProgress() const;

 private:
  FileDescriptor file_;
  std::string path_;
};

class HostCache {
 public:
  // The longest wait for another process that makes an entry and shows no progress.
  static constexpr Nanoseconds kPatience = 60 * kSecond;

  // `folder`, or, if that is empty, .cache/tethys/data in the user's home directory. NotFound: no home.
  static absl::StatusOr<std::string> FolderOf(const std::string& folder);

  // Opens the cache in FolderOf(folder).
  // Creates the folder; removes what processes that have died left in it, and entries long unused. Errors
  // name the folder and data.cache_dir.
  static absl::StatusOr<HostCache> Open(const std::string& folder, Nanoseconds patience = kPatience);

  const std::string& folder() const { return folder_; }
  std::string PathOf(absl::string_view name) const { return absl::StrCat(folder_, "/", name); }

  // Writes the entry to `path`, which does not exist, and calls `progressed` as it goes on.
  using Make = absl::FunctionRef<absl::Status(const std::string& path, absl::FunctionRef<void()> progressed)>;
  // Whether an existing entry is the entry that was asked for. A damaged entry is not, and is made anew.
  using Accept = absl::FunctionRef<bool(const std::string& path)>;
  // Returns the path of the entry, which `make` writes unless it exists. Has the errors of `make`, after
  // which no entry is kept, and the errors of Lock.
  absl::StatusOr<std::string> Entry(const std::string& name, Accept accept, Make make) const;

  // Waits until no other process holds the lock of `name`. DeadlineExceeded names the process that holds it
  // and has shown no progress for as long as this waits.
  absl::StatusOr<CacheLock> Lock(const std::string& name) const;
  // The same, but waits no longer once `there` returns true; then nullopt.
  absl::StatusOr<absl::optional<CacheLock>> LockUnless(const std::string& name,
                                                       absl::FunctionRef<bool()> there) const;
  // The same without waiting; nullopt if another process or thread holds the lock.
  absl::StatusOr<absl::optional<CacheLock>> TryLock(absl::string_view name) const;

 private:
  HostCache(std::string folder, Nanoseconds patience) : folder_(std::move(folder)), patience_(patience) {}
  void RemoveLeftovers() const;
  void RemoveUnused() const;

  std::string folder_;
  Nanoseconds patience_;
};

// Reserves `size` bytes for the new file `fd` in the cache. ResourceExhausted names the folder of `path` and
// the need.
absl::Status ReserveInCache(int fd, int64_t size, const std::string& path);

// Whether the open file is the one that `path` names: neither replaced nor removed.
bool IsOpenFile(int fd, const std::string& path);

// The same error for a write that failed because the disk is full; other errors stay as they are.
absl::Status ExplainFullCache(const absl::Status& status, const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_HOST_CACHE_H_
