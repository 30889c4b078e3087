#include "runtime/remote/block_cache.h"

#include <algorithm>
#include <deque>

namespace tethys {

// Keeps the memory of dropped blocks for new ones. Otherwise the memory of each block would come from the
// system and go back to the system, page by page, which takes a fifth of the processor time of a read from a
// fast server. Thread-safe.
class BlockCache::SpareMemory {
 public:
  explicit SpareMemory(int64_t most) : most_(static_cast<size_t>(most)) {}

  // Returns an empty string with a capacity of at least `size` bytes and at most about twice as much. If no
  // such memory is kept, the string has no capacity.
  std::string Take(int64_t size) {
    const MutexLock lock(mu_);
    const auto least = static_cast<size_t>(size);
    const auto fits = [&](const std::string& memory) {
      return memory.capacity() >= least && memory.capacity() / 2 <= least;
    };
    const auto found = std::find_if(kept_.begin(), kept_.end(), fits);
    if (found == kept_.end()) return {};
    std::string memory = std::move(*found);
    kept_.erase(found);
    bytes_ -= memory.capacity();
    return memory;
  }

  // Keeps `memory`. If the kept memory then exceeds the limit, frees the memory that has been kept longest.
  void Keep(std::string memory) {
    const MutexLock lock(mu_);
    memory.clear();
    bytes_ += memory.capacity();
    kept_.push_back(std::move(memory));
    for (; bytes_ > most_; kept_.pop_front()) bytes_ -= kept_.front().capacity();
  }

 private:
  const size_t most_;
  Mutex mu_;
  std::deque<std::string> kept_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

BlockCache::BlockCache(int64_t capacity)
    : capacity_(capacity), spare_(std::make_shared<SpareMemory>(capacity / 8)) {}

absl::StatusOr<BlockCache::Block> BlockCache::Get(const Key& key, int64_t size, Fetch fetch) {
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mu_);
    if (const auto found = entries_.find(key); found != entries_.end()) {
      entry = found->second;
      used_.splice(used_.begin(), used_, entry->place);
      // This wait needs no deadline: each fetch ends at its own deadline at the latest, and the fetching
      // thread then wakes the waiting threads.
      while (entry->block == nullptr && entry->failed.ok()) fetched_.Wait(mu_);
      if (entry->block == nullptr) return entry->failed;
      return entry->block;
    }
    entry = std::make_shared<Entry>();
    entry->size = size;
    used_.push_front(key);
    entry->place = used_.begin();
    entries_.emplace(key, entry);
    bytes_ += size;
    Drop();
  }
  absl::StatusOr<std::string> bytes = fetch(spare_->Take(size));
  const MutexLock lock(mu_);
  if (bytes.ok()) {
    entry->block = Block(new std::string(*std::move(bytes)), [spare = spare_](std::string* dropped) {
      spare->Keep(std::move(*dropped));
      delete dropped;
    });
  } else {
    entry->failed = bytes.status();
    entries_.erase(key);
    used_.erase(entry->place);
    bytes_ -= size;
  }
  fetched_.NotifyAll();
  if (entry->block == nullptr) return entry->failed;
  return entry->block;
}

bool BlockCache::Has(const Key& key) const {
  const MutexLock lock(mu_);
  return entries_.count(key) > 0;
}

void BlockCache::Drop() {
  for (auto key = used_.end(); bytes_ > capacity_ && key != used_.begin();) {
    --key;
    const auto found = entries_.find(*key);
    if (found->second->block == nullptr) continue;
    bytes_ -= found->second->size;
    entries_.erase(found);
    key = used_.erase(key);
  }
}

}  // namespace tethys
