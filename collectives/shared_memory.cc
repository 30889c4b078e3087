#include "collectives/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tethys {
namespace {

constexpr int64_t kKeyBytes = sizeof(SharedMemoryAddress::key);

// With these seals no process can truncate the file. Truncation would kill every process that then accesses
// memory beyond the end.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status NoRoom(int64_t bytes, absl::string_view why) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot reserve ", bytes, " bytes of shared memory: ", why,
      "; free memory on this host, raise the container's limit, or set tuning.transport to TCP"));
}

}  // namespace

void UnmapMemory::operator()(char* memory) const { munmap(memory, bytes); }

absl::StatusOr<SharedMemory> SharedMemory::Map(FileDescriptor descriptor, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes + kKeyBytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, absl::StrCat("cannot map ", size, " shared bytes"));
  SharedMemory shared;
  shared.descriptor_ = std::move(descriptor);
  shared.memory_ = {static_cast<char*>(memory), UnmapMemory{.bytes = size}};
  return shared;
}

absl::StatusOr<SharedMemory> SharedMemory::Create(int64_t bytes) {
  // The limit is checked here because the kernel returns no error when memory runs out, but kills the largest
  // process.
  const int64_t bound = sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE);
  if (bytes > bound) return NoRoom(bytes, absl::StrCat("the limit, half of this host's memory, is ", bound));
  FileDescriptor descriptor(memfd_create("tethys", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid()) return ErrnoStatus(errno, "cannot create shared memory");
  if (const int error = posix_fallocate(descriptor.get(), 0, bytes + kKeyBytes); error != 0) {
    return NoRoom(bytes, std::strerror(error));
  }
  if (fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0)
    return ErrnoStatus(errno, "cannot seal shared memory");
  const int number = descriptor.get();
  TETHYS_ASSIGN_OR_RETURN(SharedMemory shared, Map(std::move(descriptor), bytes));
  shared.address_ = {.process = getpid(), .descriptor = number};
  if (getrandom(shared.address_.key, kKeyBytes, 0) != kKeyBytes) return ErrnoStatus(errno, "no random bytes");
  std::memcpy(shared.data() + bytes, shared.address_.key, kKeyBytes);
  return shared;
}

absl::StatusOr<SharedMemory> SharedMemory::Open(const SharedMemoryAddress& address, int64_t bytes) {
  const std::string path = absl::StrCat("/proc/", address.process, "/fd/", address.descriptor);
  // O_NONBLOCK: open must not block even if the path now is another kind of file.
  FileDescriptor descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open the shared memory ", path, ": ", std::strerror(errno),
                     "; processes that share memory must have the same user and process namespace"));
  }
  struct stat status = {};
  const bool fits = fstat(descriptor.get(), &status) == 0 && status.st_size == bytes + kKeyBytes &&
                    fcntl(descriptor.get(), F_GET_SEALS) == kSeals;
  if (!fits) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not sealed shared memory of ", bytes, " bytes"));
  }
  TETHYS_ASSIGN_OR_RETURN(SharedMemory shared, Map(std::move(descriptor), bytes));
  if (std::memcmp(shared.data() + bytes, address.key, kKeyBytes) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is the shared memory of another process"));
  }
  shared.address_ = address;
  return shared;
}

}  // namespace tethys
