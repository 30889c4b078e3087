// Blocks of remote files in memory, so that small reads are not a request each. Those used last are kept.
//
// Invariants:
// 1. The blocks in the cache, with those being fetched, have at most `capacity` bytes together; a single
// block may be larger.
// 2. A block is fetched by one thread at a time; others that want it wait for that fetch and share its
// result.
// 3. The memory of dropped blocks that is kept for new ones has at most an eighth of `capacity`.
#ifndef TETHYS_RUNTIME_REMOTE_BLOCK_CACHE_H_
#define TETHYS_RUNTIME_REMOTE_BLOCK_CACHE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace tethys {

// Thread-safe.
class BlockCache {
 public:
  struct Key {
    int64_t file = 0;
    int64_t block = 0;
    auto operator<=>(const Key&) const = default;
  };
  using Block = std::shared_ptr<const std::string>;
  // Returns the bytes of a block, for which it may use the memory of `spare`, an empty string.
  using Fetch = absl::FunctionRef<absl::StatusOr<std::string>(std::string spare)>;

  explicit BlockCache(int64_t capacity);

  // Returns the block; calls `fetch`, which must end by itself, if it is not here. Requires `size` to be the
  // block's number of bytes. A failure is not kept: the next call fetches again.
  absl::StatusOr<Block> Get(const Key& key, int64_t size, Fetch fetch);

  // Whether the block is here or being fetched.
  bool Has(const Key& key) const;

 private:
  class SpareMemory;
  struct Entry {
    Block block;          // Null while it is fetched.
    absl::Status failed;  // Why it could not be fetched.
    int64_t size = 0;
    std::list<Key>::iterator place;  // In used_.
  };

  // Makes room by dropping blocks, the least recently used first; those being fetched stay.
  void Drop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t capacity_;
  const std::shared_ptr<SpareMemory> spare_;  // Also held by blocks, which give their memory back.
  mutable Mutex mu_;
  CondVar fetched_;
  std::map<Key, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  std::list<Key> used_ ABSL_GUARDED_BY(mu_);  // The most recently used first.
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_BLOCK_CACHE_H_
