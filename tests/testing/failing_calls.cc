#include "tests/testing/failing_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "runtime/base/status.h"

namespace tethys::testing {
namespace {

thread_local FailingCalls* active = nullptr;

// The error with which this call of function `name` fails; 0: the call is made.
int ErrorOf(const char* name) { return active == nullptr ? 0 : active->Next(name); }

// Fails as the FailingCalls of this thread demands, and otherwise makes the system call.
template <typename... Arguments>
long Call(const char* name, long number, Arguments... arguments) {
  if (const int error = ErrorOf(name); error != 0) {
    errno = error;
    return -1;
  }
  return syscall(number, arguments...);
}

// Writes all, half or none of the `size` bytes, or fails.
template <typename... Arguments>
ssize_t Write(const char* name, long number, int fd, const void* data, size_t size, Arguments... offset) {
  const int error = ErrorOf(name);
  if (error == 0) return syscall(number, fd, data, size, offset...);
  if (error == kNoWrite) return 0;
  if (error == kShortWrite) return syscall(number, fd, data, (size + 1) / 2, offset...);
  errno = error;
  return -1;
}

}  // namespace

FailingCalls::FailingCalls(FailingCall rule) : rule_(std::move(rule)) {
  TETHYS_CHECK(active == nullptr, "one at a time");
  active = this;
}

FailingCalls::~FailingCalls() { active = nullptr; }

int FailingCalls::Next(const char* name) {
  if (!rule_.name.empty() && rule_.name != name) return 0;
  const int failing = seen_++ - rule_.first;
  const int last = static_cast<int>(rule_.errors.size()) - 1;
  if (failing < 0 || (failing > last && !rule_.for_good)) return 0;
  ++failed_;
  return rule_.errors[std::min(failing, last)];
}

}  // namespace tethys::testing

using tethys::testing::Call;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return static_cast<int>(Call("open", SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t write(int fd, const void* data, size_t size) {
  return tethys::testing::Write("write", SYS_write, fd, data, size);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return tethys::testing::Write("pwrite", SYS_pwrite64, fd, data, size, offset);
}

int posix_fallocate(int fd, off_t offset, off_t length) {
  return Call("posix_fallocate", SYS_fallocate, fd, 0, offset, length) == 0 ? 0 : errno;
}

int ftruncate(int fd, off_t length) noexcept {
  return static_cast<int>(Call("ftruncate", SYS_ftruncate, fd, length));
}

int fsync(int fd) { return static_cast<int>(Call("fsync", SYS_fsync, fd)); }

int fdatasync(int fd) { return static_cast<int>(Call("fdatasync", SYS_fdatasync, fd)); }

int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(Call("rename", SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return static_cast<int>(Call("mkdir", SYS_mkdirat, AT_FDCWD, path, mode));
}

int unlink(const char* path) noexcept {
  return static_cast<int>(Call("unlink", SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  return static_cast<int>(Call("unlinkat", SYS_unlinkat, directory, path, flags));
}
}
