// Blocks of remote files in memory, so that not every small read needs a request. The cache keeps the most
// recently used blocks.
//
// Invariants:
// 1. The blocks in the cache and the blocks being fetched have together at most `capacity` bytes. A single
// block may be larger.
// 2. A block is fetched by one thread at a time; other threads that want the block wait for this fetch and
// share its result.
// 3. The memory of dropped blocks that is kept for new blocks is at most an eighth of `capacity`.
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
  // A function that returns the bytes of a block. The function may use the memory of `spare`, an empty
  // string, for the bytes.
  using Fetch = absl::FunctionRef<absl::StatusOr<std::string>(std::string spare)>;

  explicit BlockCache(int64_t capacity);

  // Returns the block. If the block is not in the cache, calls `fetch`, which must have a deadline of its
  // own. Requires `size` to be the block's number of bytes. A failure is not cached: the next call fetches
  // again.
  absl::StatusOr<Block> Get(const Key& key, int64_t size, Fetch fetch);

  // Whether the block is in the cache or being fetched.
  bool Has(const Key& key) const;

 private:
  class SpareMemory;
  struct Entry {
    Block block;          // Null while the block is fetched.
    absl::Status failed;  // Why the block could not be fetched.
    int64_t size = 0;
    std::list<Key>::iterator place;  // The key's place in used_.
  };

  // Drops the least recently used blocks until the others fit into the capacity. Blocks that are being
  // fetched stay.
  void Drop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t capacity_;
  const std::shared_ptr<SpareMemory> spare_;  // Each block shares this object, to return its memory.
  mutable Mutex mu_;
  CondVar fetched_;
  std::map<Key, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  std::list<Key> used_ ABSL_GUARDED_BY(mu_);  // Keys, the most recently used first.
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_BLOCK_CACHE_H_
