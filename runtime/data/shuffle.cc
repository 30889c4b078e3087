#include "runtime/data/shuffle.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace tethys {
namespace {

// The first bit of the queue's number within the number of a random stream. The lower bits hold the epoch.
constexpr int kQueueShift = 44;
// This bit is set in the number of the random stream that provides the seed for shuffling windows (kBlocks).
constexpr uint64_t kWindows = uint64_t{1} << 62;

uint64_t StreamNumber(int64_t epoch, int64_t queue) {
  return static_cast<uint64_t>(epoch) | static_cast<uint64_t>(queue) << kQueueShift;
}

uint64_t WindowSeed(uint64_t seed, uint64_t number) {
  const auto words = RandomStream(seed, RandomPurpose::kShuffle, number | kWindows).Block(0);
  return static_cast<uint64_t>(words[0]) << 32 | words[1];
}

int64_t Blocks(const ShuffleRules& rules, int64_t count) {
  if (rules.kind != ShuffleRules::Kind::kBlocks) return 1;
  return std::max<int64_t>(1, (count + rules.block - 1) / rules.block);
}

}  // namespace

ShuffledQueue::ShuffledQueue(const ShuffleRules& rules, uint64_t seed, int64_t epoch, int64_t queue,
                             int64_t count, bool held)
    : rules_(rules),
      count_(count),
      stream_(seed, RandomPurpose::kShuffle, StreamNumber(epoch, queue)),
      held_(held),
      blocks_(Blocks(rules, count)),
      computed_(stream_, rules.kind == ShuffleRules::Kind::kBlocks ? blocks_ : std::max<int64_t>(1, count)),
      short_slot_(computed_.IndexOf(blocks_ - 1)),
      missing_(blocks_ * rules.block - count),
      window_seed_(WindowSeed(seed, StreamNumber(epoch, queue))) {
  TETHYS_CHECK(rules.block >= 1 && rules.window >= 1, "blocks of ", rules.block, ", windows of ",
               rules.window);
}

int64_t ShuffledQueue::operator[](int64_t index) const {
  switch (rules_.kind) {
    case ShuffleRules::Kind::kNone:
      return index;
    case ShuffleRules::Kind::kBlocks:
      return InBlocks(index);
    case ShuffleRules::Kind::kFull:
      break;
  }
  if (!held_) return computed_[index];
  Hold();
  return order_[index];
}

void ShuffledQueue::Hold() const {
  if (!held_ || rules_.kind != ShuffleRules::Kind::kFull) return;
  absl::call_once(once_, [this] { order_ = RandomPermutation(stream_, count_); });
}

int64_t ShuffledQueue::BeginOf(int64_t slot) const {
  return slot * rules_.block - (slot > short_slot_ ? missing_ : 0);
}

int64_t ShuffledQueue::SlotOf(int64_t index) const {
  const int64_t behind_short = BeginOf(short_slot_ + 1);
  return (index < behind_short ? index : index + missing_) / rules_.block;
}

int64_t ShuffledQueue::InBlocks(int64_t index) const {
  const int64_t window = SlotOf(index) / rules_.window;
  const int64_t begin = BeginOf(window * rules_.window);
  const int64_t end = BeginOf(std::min(blocks_, (window + 1) * rules_.window));
  const KeyedPermutation inside(RandomStream(window_seed_, RandomPurpose::kShuffle, window), end - begin);
  const int64_t shuffled = begin + inside[index - begin];
  const int64_t slot = SlotOf(shuffled);
  return computed_[slot] * rules_.block + (shuffled - BeginOf(slot));
}

}  // namespace tethys
