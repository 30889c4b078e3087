// Memory shared by processes of one host, without a name in any file system: it is gone with the last process
// that holds it, whatever way that ends. Made by one process, which tells the others its address; they open
// it through /proc, which the kernel allows to processes of the same user in the same process namespace.
//
// Move-only; the memory itself may be used by any thread.
#ifndef TETHYS_COLLECTIVES_SHARED_SEGMENT_H_
#define TETHYS_COLLECTIVES_SHARED_SEGMENT_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// Where a segment is to be had. Trivially copyable: it travels between ranks as bytes.
struct SegmentAddress {
  int64_t process = 0;
  int64_t descriptor = -1;
  uint64_t key[2] = {};  // Random; stands at the end of the segment, so that no other is mistaken for it.
};

struct UnmapMemory {
  size_t bytes = 0;
  void operator()(char* memory) const;
};

class SharedSegment {
 public:
  // Zeroed. ResourceExhausted names the size: the memory is reserved here, not when it is first touched.
  static absl::StatusOr<SharedSegment> Create(int64_t bytes);
  // FailedPrecondition: not to be reached from here, or another segment, or one of another size.
  static absl::StatusOr<SharedSegment> Open(const SegmentAddress& address, int64_t bytes);

  const SegmentAddress& address() const { return address_; }
  char* data() const { return memory_.get(); }  // Page-aligned.
  // Nobody can open it through this process any more; who has it keeps it.
  void CloseDescriptor() { descriptor_.Close(); }

 private:
  static absl::StatusOr<SharedSegment> Map(FileDescriptor descriptor, int64_t bytes);

  SegmentAddress address_;
  FileDescriptor descriptor_;
  std::unique_ptr<char, UnmapMemory> memory_;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_SHARED_SEGMENT_H_
