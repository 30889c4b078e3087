// The order of an experiment's runs. A block consists of one run of each variant, so that a machine that
// becomes slower or faster affects all variants alike. Runs that other programs disturbed are made once more
// at the end of their block. Pure; thread-compatible.
//
//   while (auto slot = schedule.Next()) schedule.Finished(Disturbed(Run(*slot)));
#ifndef TETHYS_DEPLOY_EXPERIMENT_RUN_SCHEDULE_H_
#define TETHYS_DEPLOY_EXPERIMENT_RUN_SCHEDULE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "deploy/report/run_means.h"

namespace tethys {

struct ScheduleOptions {
  int variants = 0;
  int repeats = 1;  // The number of blocks.
  // If true, the runs of a block are in a random order, which depends on `seed` and the number of the block.
  // If false, they are in the order of the variants.
  bool random = true;
  uint64_t seed = 0;
};

// A run that is to be made.
struct RunSlot {
  int variant = 0;
  int block = 0;
  bool again = false;  // True if this run repeats a disturbed run.
  bool operator==(const RunSlot&) const = default;
};

// Invariants:
//  1. Each block contains each of its variants once, and after them at most one repetition of each variant.
//  2. All runs of a block come before the first run of the next block.
class RunSchedule {
 public:
  explicit RunSchedule(const ScheduleOptions& options);

  // The next run; nullopt at the end. Returns the same run until Finished is called.
  absl::optional<RunSlot> Next() const;
  // Must be called after the run that Next returned was made. `disturbed`: the run is repeated once at the
  // end of its block; ignored if the run is itself a repetition.
  void Finished(bool disturbed);
  // Adds a block of `variants` after all other blocks.
  void AddBlock(absl::Span<const int> variants);

  // All remaining runs that are known now, in the order in which Next returns them.
  std::vector<RunSlot> ToCome() const;
  int blocks() const { return blocks_; }

 private:
  const ScheduleOptions options_;
  int blocks_ = 0;
  std::deque<RunSlot> to_come_;
  std::vector<RunSlot> again_;  // Repetitions, made at the end of the current block.
};

// The variants whose mean training time is not yet known precisely enough, ascending: half of its 95 %
// confidence interval (Student's t) is wider than `share` of the mean, or the variant has only one successful
// run. Variants without any successful run are left out, because more runs would fail, too.
std::vector<int> VariantsNotWithin(double share, absl::Span<const RunRecord> runs, int variants);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_EXPERIMENT_RUN_SCHEDULE_H_
