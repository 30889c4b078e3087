// The samples of each rank of a sharded job, as a queue that the rank goes through in an epoch, and the entry
// of a queue that each position of the epoch takes. Pure: every process computes the same.
#ifndef TETHYS_RUNTIME_DATA_SAMPLE_QUEUES_H_
#define TETHYS_RUNTIME_DATA_SAMPLE_QUEUES_H_

#include <cstdint>
#include <vector>

#include "runtime/data/sharding.h"

namespace tethys {

// Which samples of the training split are in a rank's queue.
enum class Sharding {
  kGlobal,  // One queue of all samples, for all ranks.
  kFile,    // Those of its files.
  kData,    // Those whose number is the rank, modulo the number of ranks.
  kOff,     // All.
};

// The files of each rank, in their order: the longest first, each to the rank with the fewest samples, and
// where several have as many to the first of these. Files without samples belong to no rank. Requires
// ranks >= 1.
std::vector<std::vector<int64_t>> AssignFiles(const std::vector<int64_t>& file_samples, int64_t ranks);

// A position takes the entry of its rank's queue with the position's index among those of the rank. Where a
// queue is longer than the rank has positions, its last entries are left over. They go to the positions of
// ranks whose queues are shorter, both in the order of the ranks. So every entry of every queue is used once.
// Immutable, thread-safe.
class SampleQueues {
 public:
  // `split` has as many positions as all queues have entries, and may be anything of that size if there is
  // one queue for all. Requires, with kFile, that `file_samples` add up to `samples`.
  SampleQueues(Sharding sharding, int64_t samples, const std::vector<int64_t>& file_samples,
               const RankSplit& split);

  int64_t positions() const { return split_.positions(); }
  // Of the training split.
  int64_t samples() const { return samples_; }
  // 1 if the ranks share one.
  int64_t queues() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t SizeOf(int64_t queue) const { return sizes_[queue]; }
  // The number of the queues' entries that other ranks' positions take.
  int64_t moved() const { return surplus_begin_.empty() ? 0 : surplus_begin_.back(); }

  struct Entry {
    int64_t queue = 0;
    int64_t index = 0;
    bool operator==(const Entry&) const = default;
  };
  // The entry that a position takes. Requires 0 <= position < positions().
  Entry EntryAt(int64_t position) const;
  // The sample at a place of a queue in natural order.
  int64_t SampleAt(Entry entry) const;

 private:
  // Samples of one file, in a queue.
  struct Part {
    int64_t begin = 0;  // In the queue.
    int64_t first = 0;  // The number of the first of these samples.
  };
  void AddFiles(const std::vector<int64_t>& file_samples);

  const Sharding sharding_;
  const int64_t samples_;
  const RankSplit split_;
  std::vector<int64_t> sizes_;
  std::vector<std::vector<Part>> parts_;  // With kFile, by queue.
  // By queue, and in all: how many entries are left over in queues before it, and how many its own and those
  // before it lack. Empty if there is one queue for all.
  std::vector<int64_t> surplus_begin_, lack_begin_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SAMPLE_QUEUES_H_
