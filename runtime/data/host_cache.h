// The host's cache: a folder of entries, each made once per host by the first process that needs it, and then
// read by all. An entry is a file or a folder, and appears complete or not at all: it is made under a
// temporary name, synced and renamed. The name of an entry is a hash of everything that determines its
// contents (CacheKey), so an entry never becomes wrong. An entry that was not read for 60 days, according to
// the file system's access times, is removed when the cache is opened.
//
//   NAME           an entry
//   NAME.partial   an entry that is being made
//   NAME.lock      locked (flock) by the process that makes the entry; contains the process's number
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
  // Adds a field. The borders of fields count: "ab", "c" and "a", "bc" give different keys.
  CacheKey& Add(absl::string_view field);
  CacheKey& Add(int64_t number);
  // The key as 32 hexadecimal digits.
  std::string text() const;

 private:
  void Mix(absl::string_view bytes);
  absl::uint128 hash_ = absl::MakeUint128(0x6c62272e07bb0142u, 0x62b821756295c58du);
};

// A lock that one process of the host, or one thread of it, holds until this object is destroyed.
class CacheLock {
 public:
  CacheLock(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  ~CacheLock();
  CacheLock(CacheLock&&) noexcept = default;
  CacheLock& operator=(CacheLock&&) = delete;

  // Tells the processes that wait for the lock that the holder makes progress. Any thread.
  void ShowProgress() const;

 private:
  FileDescriptor file_;
  std::string path_;
};

class HostCache {
 public:
  // The longest wait for another process that makes an entry and shows no progress.
  static constexpr Nanoseconds kPatience = 60 * kSecond;

  // Returns `folder` or, if it is empty, .cache/tethys/data in the user's home directory. NotFound: the user
  // has no home directory.
  static absl::StatusOr<std::string> FolderOf(const std::string& folder);

  // Opens the cache in FolderOf(folder). Creates the folder; removes files of dead processes and entries that
  // were not used for long. Errors name the folder and data.cache_dir.
  static absl::StatusOr<HostCache> Open(const std::string& folder, Nanoseconds patience = kPatience);

  const std::string& folder() const { return folder_; }
  std::string PathOf(absl::string_view name) const { return absl::StrCat(folder_, "/", name); }

  // Writes the entry to `path`, which does not exist yet, and calls `progressed` repeatedly.
  using Make = absl::FunctionRef<absl::Status(const std::string& path, absl::FunctionRef<void()> progressed)>;
  // Returns true if an existing entry is usable. A damaged entry is not usable and is made anew.
  using Accept = absl::FunctionRef<bool(const std::string& path)>;
  // Returns the path of the entry, which `make` writes unless it exists. Has the errors of `make` and of
  // Lock. After an error of `make`, no entry is kept.
  absl::StatusOr<std::string> Entry(const std::string& name, Accept accept, Make make) const;

  // Takes the lock of `name`; waits while another process holds the lock. DeadlineExceeded names a process
  // that has held the lock for kPatience without showing progress.
  absl::StatusOr<CacheLock> Lock(const std::string& name) const;
  // Like Lock, but stops waiting once `there` returns true, and then returns nullopt.
  absl::StatusOr<absl::optional<CacheLock>> LockUnless(const std::string& name,
                                                       absl::FunctionRef<bool()> there) const;
  // Like Lock, but never waits. nullopt: another process or thread holds the lock.
  absl::StatusOr<absl::optional<CacheLock>> TryLock(absl::string_view name) const;

 private:
  HostCache(std::string folder, Nanoseconds patience) : folder_(std::move(folder)), patience_(patience) {}
  void RemoveLeftovers() const;
  void RemoveUnused() const;

  std::string folder_;
  Nanoseconds patience_;
};

// Reserves `size` bytes for the new file `fd` in the cache. ResourceExhausted names the folder of `path` and
// the space needed.
absl::Status ReserveInCache(int fd, int64_t size, const std::string& path);

// True if the open file is still the file at `path`: neither replaced nor removed.
bool IsOpenFile(int fd, const std::string& path);

// Turns the error of a write to a full disk into the error of ReserveInCache; returns other errors unchanged.
absl::Status ExplainFullCache(const absl::Status& status, const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_HOST_CACHE_H_
