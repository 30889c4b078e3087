#include "runtime/tensor/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "runtime/base/control_group.h"
#include "runtime/base/mutex.h"

namespace tethys {
namespace {

constexpr int64_t kHugePage = 2 << 20;  // In bytes.

// Null if memory runs out. `bytes` is a multiple of the alignment.
std::shared_ptr<float> AllocatePages(int64_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kHugePage, static_cast<size_t>(bytes)) != 0) return nullptr;
  // Linux may refuse this request, or may have no huge pages. The memory then has small pages.
  madvise(memory, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  return {static_cast<float*>(memory), [](float* data) { std::free(data); }};
}

// Allocates arenas that are smaller than a huge page side by side in shared huge pages. A page is freed when
// the last arena in the page is freed.
class SharedPages {
 public:
  // Like AllocatePages, for less than kHugePage bytes.
  std::shared_ptr<float> Allocate(int64_t bytes) {
    MutexLock lock(mu_);
    std::shared_ptr<float> page = page_.lock();
    if (page == nullptr || used_ + bytes > kHugePage) {
      page = AllocatePages(kHugePage);
      page_ = page;
      used_ = 0;
    }
    if (page == nullptr) return nullptr;
    float* const data = page.get() + used_ / static_cast<int64_t>(sizeof(float));
    used_ += bytes;
    return {std::move(page), data};
  }

 private:
  Mutex mu_;
  std::weak_ptr<float> page_ ABSL_GUARDED_BY(mu_);  // The page from which the next arenas are allocated.
  int64_t used_ ABSL_GUARDED_BY(mu_) = 0;           // Bytes of page_ that arenas use.
};

std::shared_ptr<float> AllocateBytes(int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  // AddressSanitizer detects accesses behind the end of an allocation, but not behind the end of a part of an
  // allocation. So each arena gets an allocation of its own.
  return {static_cast<float*>(std::aligned_alloc(kAlignment * sizeof(float), static_cast<size_t>(bytes))),
          [](float* data) { std::free(data); }};
#else
  static SharedPages& shared = *new SharedPages;
  return bytes < kHugePage ? shared.Allocate(bytes) : AllocatePages(bytes);
#endif
}

}  // namespace

int64_t InstalledMemory() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

int64_t UsableMemory() { return WithinGroup(InstalledMemory()); }

absl::StatusOr<Arena> Arena::Allocate(int64_t size) {
  Arena arena;
  if (size == 0) return arena;
  const int64_t bytes = AlignUp(size) * static_cast<int64_t>(sizeof(float));
  // Requests for more than the installed memory fail here, because Linux may grant such a request, and later
  // kill the process that writes to the memory.
  if (bytes < kUncheckedBytes || bytes <= UsableMemory()) arena.data_ = AllocateBytes(bytes);
  if (arena.data_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("needs ", bytes >> 20,
                                                     " MiB of memory in one piece; this host has ",
                                                     UsableMemory() >> 20, " MiB in all"));
  }
  std::memset(arena.data_.get(), 0, static_cast<size_t>(bytes));
  arena.size_ = size;
  return arena;
}

}  // namespace tethys
