// Memory shared by processes of one host, without a name in any file system. The kernel frees it when the
// last process that maps it ends, even if that process is killed. One process creates the memory and sends
// its address to the other processes, which open the memory through /proc. The kernel permits this to
// processes of the same user and process namespace.
//
// Move-only; any thread may use the memory itself.
#ifndef TETHYS_COLLECTIVES_SHARED_MEMORY_H_
#define TETHYS_COLLECTIVES_SHARED_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// The address of shared memory. Trivially copyable, because ranks exchange it as bytes.
struct SharedMemoryAddress {
  int64_t process = 0;
  int64_t descriptor = -1;
  // Random; also stored at the end of the memory, so that no other memory is mistaken for this one.
  uint64_t key[2] = {};
};

struct UnmapMemory {
  size_t bytes = 0;
  void operator()(char* memory) const;
};

class SharedMemory {
 public:
  // Creates zeroed memory and reserves all of it. ResourceExhausted names the size.
  static absl::StatusOr<SharedMemory> Create(int64_t bytes);
  // FailedPrecondition: the memory cannot be opened, belongs to another process or has another size.
  static absl::StatusOr<SharedMemory> Open(const SharedMemoryAddress& address, int64_t bytes);

  const SharedMemoryAddress& address() const { return address_; }
  char* data() const { return memory_.get(); }  // Page-aligned.
  // Prevents other processes from opening the memory through this process. Existing mappings stay.
  void CloseDescriptor() { descriptor_.Close(); }

 private:
  static absl::StatusOr<SharedMemory> Map(FileDescriptor descriptor, int64_t bytes);

  SharedMemoryAddress address_;
  FileDescriptor descriptor_;
  std::unique_ptr<char, UnmapMemory> memory_;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_SHARED_MEMORY_H_
