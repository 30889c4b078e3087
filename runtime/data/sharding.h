// Decides which worker trains on which positions. This is pure arithmetic, with the same results on the chief
// and on every worker. The order of an epoch (epoch_order.h) maps positions to samples. A step is a slice of
// positions in that order, and a worker's batch is a slice of the step's slice.
#ifndef TETHYS_RUNTIME_DATA_SHARDING_H_
#define TETHYS_RUNTIME_DATA_SHARDING_H_

#include <cstdint>

namespace tethys {

// Positions [begin, end) of an epoch's order; without an order, samples [begin, end).
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

// Part number `rank` of `world` contiguous parts of `whole`; the first (count mod world) parts have one more
// sample. Requires world >= 1 and 0 <= rank < world.
Slice SplitSlice(Slice whole, int64_t rank, int64_t world);

// The number of steps in an epoch of `samples` samples, with `global_batch` samples per step. A short last
// batch counts unless it is dropped.
int64_t StepsPerEpoch(int64_t samples, int64_t global_batch, bool drop_remainder);
// The number of samples that an epoch uses: all, or only those in full batches.
int64_t SamplesPerEpoch(int64_t samples, int64_t global_batch, bool drop_remainder);

// The positions that all workers together use in a step of an epoch. The epoch's last step may have fewer
// than global_batch. Requires 0 <= step_in_epoch < StepsPerEpoch.
Slice StepSlice(int64_t samples, int64_t global_batch, int64_t step_in_epoch);
// The positions that one worker uses in this step; may be empty.
Slice StepSlice(int64_t samples, int64_t global_batch, int64_t step_in_epoch, int64_t rank, int64_t world);

// The rank to which each position of an epoch of a sharded job belongs. Used both by the order of the epoch
// and by the chief's leases, so that a rank trains on its own samples. Immutable, thread-safe.
class RankSplit {
 public:
  // Steps of `global_batch` positions, each divided as by StepSlice. Requires positions >= 0,
  // global_batch >= 1 and world >= 1.
  static RankSplit OfSteps(int64_t positions, int64_t global_batch, int64_t world) {
    return {positions, global_batch, world, false};
  }
  // Batches of `batch` positions, which belong to the ranks in turns. Has the requirements of OfSteps.
  static RankSplit OfBatches(int64_t positions, int64_t batch, int64_t world) {
    return {positions, batch, world, true};
  }

  int64_t positions() const { return positions_; }
  int64_t world() const { return world_; }

  // The rank of a position, and its index among the rank's positions.
  struct Place {
    int64_t rank = 0;
    int64_t index = 0;
    bool operator==(const Place&) const = default;
  };
  // Requires 0 <= position < positions().
  Place PlaceOf(int64_t position) const;
  // The number of a rank's positions.
  int64_t CountOf(int64_t rank) const;

 private:
  RankSplit(int64_t positions, int64_t batch, int64_t world, bool in_turns);

  int64_t positions_;
  int64_t batch_;
  int64_t world_;
  bool in_turns_;
};

// The samples that one worker evaluates, in natural order.
Slice EvaluationSlice(int64_t samples, int64_t rank, int64_t world);

// Converts a position in an epoch to a position counted from the start of the job.
constexpr int64_t JobPosition(int64_t epoch, int64_t samples_per_epoch, int64_t position) {
  return epoch * samples_per_epoch + position;
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_SHARDING_H_
