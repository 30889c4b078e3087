// The order of an experiment's runs. A block holds one run of each variant, so that a machine that grows
// slower or faster does so for all variants alike. Runs that other programs disturbed are made once more at
// the end of their block. Pure; thread-compatible.
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
  int repeats = 1;     // Blocks.
  bool random = true;  // The order within a block is random, by `seed` and block; otherwise that of variants.
  uint64_t seed = 0;
};

// A run to make.
struct RunSlot {
  int variant = 0;
  int block = 0;
  bool again = false;  // The repetition of a disturbed run.
  bool operator==(const RunSlot&) const = default;
};

// Invariants:
//  1. Each block holds each of its variants once, and after them at most one repetition of each.
//  2. No run of a block comes before the last run of the block before it.
class RunSchedule {
 public:
  explicit RunSchedule(const ScheduleOptions& options);

  // The next run; nullopt at the end. Returns the same run until Finished is called.
  absl::optional<RunSlot> Next() const;
  // The run that Next returned has been made. `disturbed`: it is to be repeated; ignored for a repetition.
  void Finished(bool disturbed);
  // Adds a block of some variants behind all others.
  void AddBlock(absl::Span<const int> variants);

  // All runs to come that are known now, in order.
  std::vector<RunSlot> ToCome() const;
  int blocks() const { return blocks_; }

 private:
  const ScheduleOptions options_;
  int blocks_ = 0;
  std::deque<RunSlot> to_come_;
  std::vector<RunSlot> again_;  // Repetitions of the current block.
};

// The variants whose mean training time is not yet known to `share` of itself: half of its 95 % interval
// (Student's t) is wider, or fewer than two of its runs succeeded. Variants of which no run succeeded are
// left out: more runs would fail, too. Ascending.
std::vector<int> VariantsNotWithin(double share, absl::Span<const RunRecord> runs, int variants);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_EXPERIMENT_RUN_SCHEDULE_H_
