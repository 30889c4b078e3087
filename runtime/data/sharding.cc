#include "runtime/data/sharding.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace tethys {

EpochOrder::EpochOrder(uint64_t seed, int64_t epoch, int64_t samples)
    : epoch_(epoch),
      size_(samples),
      computed_(RandomStream(seed, RandomPurpose::kShuffle, epoch), std::max<int64_t>(samples, 1)),
      held_(samples > kMostHeld
                ? std::vector<uint32_t>()
                : RandomPermutation(RandomStream(seed, RandomPurpose::kShuffle, epoch), samples)) {}

Slice SplitSlice(Slice whole, int64_t rank, int64_t world) {
  TETHYS_CHECK(world >= 1 && rank >= 0 && rank < world, "rank ", rank, " of ", world);
  const int64_t share = whole.count() / world;
  const int64_t longer = whole.count() % world;
  const int64_t begin = whole.begin + rank * share + std::min(rank, longer);
  return {begin, begin + share + (rank < longer ? 1 : 0)};
}

int64_t StepsPerEpoch(int64_t samples, int64_t global_batch, bool drop_remainder) {
  TETHYS_CHECK(global_batch >= 1);
  return samples / global_batch + (!drop_remainder && samples % global_batch != 0 ? 1 : 0);
}

int64_t SamplesPerEpoch(int64_t samples, int64_t global_batch, bool drop_remainder) {
  TETHYS_CHECK(global_batch >= 1);
  return drop_remainder ? samples - samples % global_batch : samples;
}

Slice StepSlice(int64_t samples, int64_t global_batch, int64_t step_in_epoch) {
  const int64_t begin = step_in_epoch * global_batch;
  TETHYS_CHECK(step_in_epoch >= 0 && begin < samples, "step ", step_in_epoch, " of ", samples, " samples");
  return {begin, std::min(begin + global_batch, samples)};
}

Slice StepSlice(int64_t samples, int64_t global_batch, int64_t step_in_epoch, int64_t rank, int64_t world) {
  return SplitSlice(StepSlice(samples, global_batch, step_in_epoch), rank, world);
}

Slice EvaluationSlice(int64_t samples, int64_t rank, int64_t world) {
  return SplitSlice({0, samples}, rank, world);
}

}  // namespace tethys
