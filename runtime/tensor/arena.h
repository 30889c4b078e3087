// A zeroed, 64-byte aligned buffer of floats on the host. Move-only. Linux is asked for huge pages: a
// training step touches all parameters and gradients, and with pages of 4 KiB the processor waits for page
// tables.
#ifndef TETHYS_RUNTIME_TENSOR_ARENA_H_
#define TETHYS_RUNTIME_TENSOR_ARENA_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// Bytes of memory installed in this host, used or free.
int64_t InstalledMemory();
// Bytes of memory that this process may use: of the installed memory, as much as its control group allows.
// Reads files.
int64_t UsableMemory();
// Allocations of fewer bytes are not compared with UsableMemory, which takes longer than such an allocation.
inline constexpr int64_t kUncheckedBytes = 1 << 20;

class Arena {
 public:
  Arena() = default;
  Arena(Arena&&) = default;
  Arena& operator=(Arena&&) = default;
  // Ends the process if memory runs out. Use the constructor for small sizes only, or for sizes that Allocate
  // has granted before.
  explicit Arena(int64_t size) {
    absl::StatusOr<Arena> arena = Allocate(size);
    TETHYS_CHECK(arena.ok(), arena.status().message());
    *this = *std::move(arena);
  }
  // ResourceExhausted: the host lacks the memory; the message says how much is needed and how much is
  // installed.
  static absl::StatusOr<Arena> Allocate(int64_t size);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  absl::Span<float> span() { return {data_.get(), static_cast<size_t>(size_)}; }
  absl::Span<const float> span() const { return {data_.get(), static_cast<size_t>(size_)}; }
  absl::Span<float> Slice(Range range) { return span().subspan(range.begin, range.count); }
  absl::Span<const float> Slice(Range range) const { return span().subspan(range.begin, range.count); }

 private:
  std::shared_ptr<float> data_;  // Owns the huge page that a small arena shares with other arenas.
  int64_t size_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TENSOR_ARENA_H_
