// Memory shared by processes of one host, without a name in any file system: the kernel frees it with the
// last process that maps it, even if that is killed. One process creates it and sends its address to the
// others, which open it through /proc; the kernel allows this to processes of the same user and process
// namespace.
//
// Move-only; any thread may use the memory itself.
#ifndef TETHYS_COLLECTIVES_SHARED_SEGMENT_H_
#define TETHYS_COLLECTIVES_SHARED_SEGMENT_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// The address of a segment. Trivially copyable, since ranks exchange it as bytes.
struct SegmentAddress {
  int64_t process = 0;
  int64_t descriptor = -1;
  uint64_t key[2] = {};  // Random; also stored at the segment's end, so that no other is mistaken for it.
};

struct UnmapMemory {
  size_t bytes = 0;
  void operator()(char* memory) const;
};

class SharedSegment {
 public:
  // Creates zeroed memory and reserves all of it. ResourceExhausted names the size.
  static absl::StatusOr<SharedSegment> Create(int64_t bytes);
  // FailedPrecondition: the segment cannot be opened, is another one or has another size.
  static absl::StatusOr<SharedSegment> Open(const SegmentAddress& address, int64_t bytes);

  const SegmentAddress& address() const { return address_; }
  char* data() const { return memory_.get(); }  // Page-aligned.
  // Prevents further processes from opening it through this one; existing mappings stay.
  void CloseDescriptor() { descriptor_.Close(); }

 private:
  static absl::StatusOr<SharedSegment> Map(FileDescriptor descriptor, int64_t bytes);

  SegmentAddress address_;
  FileDescriptor descriptor_;
  std::unique_ptr<char, UnmapMemory> memory_;
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_SHARED_SEGMENT_H_
