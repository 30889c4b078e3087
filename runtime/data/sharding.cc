#include "runtime/data/sharding.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace tethys {

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

RankSplit::RankSplit(int64_t positions, int64_t batch, int64_t world, bool in_turns)
    : positions_(positions), batch_(batch), world_(world), in_turns_(in_turns) {
  TETHYS_CHECK(positions >= 0 && batch >= 1 && world >= 1, positions, " positions in batches of ", batch,
               " for ", world, " ranks");
}

RankSplit::Place RankSplit::PlaceOf(int64_t position) const {
  TETHYS_CHECK(position >= 0 && position < positions_, position, " of ", positions_);
  const int64_t batch = position / batch_, offset = position % batch_;
  if (in_turns_) return {batch % world_, batch / world_ * batch_ + offset};
  const int64_t count = std::min(batch_, positions_ - batch * batch_);
  const int64_t share = count / world_, longer = count % world_;
  const int64_t in_longer = longer * (share + 1);
  const int64_t rank = offset < in_longer ? offset / (share + 1) : longer + (offset - in_longer) / share;
  const int64_t before = batch * SplitSlice({0, batch_}, rank, world_).count();
  return {rank, before + offset - SplitSlice({0, count}, rank, world_).begin};
}

int64_t RankSplit::CountOf(int64_t rank) const {
  const int64_t batches = positions_ / batch_, rest = positions_ % batch_;
  if (!in_turns_) {
    return batches * SplitSlice({0, batch_}, rank, world_).count() +
           SplitSlice({0, rest}, rank, world_).count();
  }
  const int64_t own = batches / world_ + (rank < batches % world_ ? 1 : 0);
  return own * batch_ + (rank == batches % world_ ? rest : 0);
}

Slice EvaluationSlice(int64_t samples, int64_t rank, int64_t world) {
  return SplitSlice({0, samples}, rank, world);
}

}  // namespace tethys
