// For a sharded job: the queues of samples that the ranks go through in an epoch, and the map from positions
// of the epoch to entries of the queues. Pure: every process computes the same.
#ifndef TETHYS_RUNTIME_DATA_SAMPLE_QUEUES_H_
#define TETHYS_RUNTIME_DATA_SAMPLE_QUEUES_H_

#include <cstdint>
#include <vector>

#include "runtime/data/sharding.h"

namespace tethys {

// The samples of the training split that are in the queue of a rank.
enum class Sharding {
  kGlobal,  // One queue of all samples, for all ranks.
  kFile,    // The samples of the rank's files.
  kData,    // The samples whose number, modulo the number of ranks, is the rank.
  kOff,     // All samples. Each rank has a queue of its own.
};

// Assigns files to ranks; each rank's files keep their order. The files are assigned from the longest to the
// shortest, each to the rank with the fewest samples so far or, on a tie, to the first such rank. Files
// without samples belong to no rank. Requires ranks >= 1.
std::vector<std::vector<int64_t>> AssignFiles(const std::vector<int64_t>& file_samples, int64_t ranks);

// Maps positions of an epoch to entries of queues. The i-th position of a rank takes the i-th entry of the
// rank's queue. If a queue is longer than its rank's positions, its last entries are left over, and go to the
// remaining positions of ranks with shorter queues. Entries left over and remaining positions are matched in
// the order of ranks. For example, with queues of 5 and 3 entries and 4 positions a rank, the last entry of
// rank 0 goes to the last position of rank 1. So every entry of every queue is used once. Immutable,
// thread-safe.
class SampleQueues {
 public:
  // `split` must have as many positions as all queues together have entries. If all ranks share one queue,
  // only the number of positions of `split` is used. With kFile, requires that `file_samples` add up to
  // `samples`.
  SampleQueues(Sharding sharding, int64_t samples, const std::vector<int64_t>& file_samples,
               const RankSplit& split);

  int64_t positions() const { return split_.positions(); }
  // The number of samples of the training split.
  int64_t samples() const { return samples_; }
  // The number of queues; 1 if the ranks share one.
  int64_t queues() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t SizeOf(int64_t queue) const { return sizes_[queue]; }
  // The number of entries that go to positions of other ranks.
  int64_t moved() const { return surplus_begin_.empty() ? 0 : surplus_begin_.back(); }

  struct Entry {
    int64_t queue = 0;
    int64_t index = 0;
    bool operator==(const Entry&) const = default;
  };
  // The entry that a position takes. Requires 0 <= position < positions().
  Entry EntryAt(int64_t position) const;
  // The sample at an entry of a queue that is not shuffled.
  int64_t SampleAt(Entry entry) const;

 private:
  // A run of samples of one file within a queue.
  struct Part {
    int64_t begin = 0;  // The position of the first of these samples in the queue.
    int64_t first = 0;  // The number of the first of these samples.
  };
  void AddFiles(const std::vector<int64_t>& file_samples);

  const Sharding sharding_;
  const int64_t samples_;
  const RankSplit split_;
  std::vector<int64_t> sizes_;
  std::vector<std::vector<Part>> parts_;  // The parts of each queue, if the sharding is kFile.
  // For each queue, the number of entries that are left over in all earlier queues, and the number of entries
  // that all earlier queues lack. A last element has the totals of all queues. Empty if all ranks share one
  // queue.
  std::vector<int64_t> surplus_begin_, lack_begin_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SAMPLE_QUEUES_H_
