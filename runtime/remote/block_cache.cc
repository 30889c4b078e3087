#include "runtime/remote/block_cache.h"

namespace tethys {

absl::StatusOr<BlockCache::Block> BlockCache::Get(const Key& key, int64_t size, Fetch fetch) {
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mu_);
    if (const auto found = entries_.find(key); found != entries_.end()) {
      entry = found->second;
      used_.splice(used_.begin(), used_, entry->place);
      // The fetching thread ends its fetch at a deadline, and then wakes the others.
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
  absl::StatusOr<std::string> bytes = fetch();
  const MutexLock lock(mu_);
  if (bytes.ok()) {
    entry->block = std::make_shared<const std::string>(*std::move(bytes));
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
