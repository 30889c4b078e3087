#include "runtime/tensor/arena.h"

#include <unistd.h>

#include <cstring>

#include "runtime/base/control_group.h"

namespace tethys {

int64_t InstalledMemory() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

absl::StatusOr<Arena> Arena::Allocate(int64_t size) {
  Arena arena;
  if (size == 0) return arena;
  const int64_t bytes = AlignUp(size) * static_cast<int64_t>(sizeof(float));
  const int64_t installed = WithinGroup(InstalledMemory());
  // Linux may grant more memory than the host has, and later kill the process that writes to it.
  if (bytes <= installed) {
    arena.data_.reset(
        static_cast<float*>(std::aligned_alloc(kAlignment * sizeof(float), static_cast<size_t>(bytes))));
  }
  if (arena.data_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("needs ", bytes >> 20,
                                                     " MiB of memory in one piece; this host has ",
                                                     installed >> 20, " MiB in all"));
  }
  std::memset(arena.data_.get(), 0, static_cast<size_t>(bytes));
  arena.size_ = size;
  return arena;
}

}  // namespace tethys
