// Finds jumps in step time over the batch, with few false findings. Lines are fitted to parts of the curve
// (segment_fit.h); a cut between two lines counts as a jump only if
//   1. the jump is at least 2 % of the step,
//   2. odd and even rounds, taken separately, show the jump with the same sign and at least 0.4 of its size,
//      and
//   3. at most 5 % of 199 random curves have a jump of this size at any place; these curves are made without
//      jumps, from the fit and residuals drawn with replacement.
// Pure: the same times and seed give the same result. Any thread; about a millisecond for 70 batches, without
// (3).
#ifndef TETHYS_DEPLOY_SWEEP_JUMP_TEST_H_
#define TETHYS_DEPLOY_SWEEP_JUMP_TEST_H_

#include <cstdint>
#include <vector>

#include "deploy/sweep/round_times.h"
#include "proto/sweep.pb.h"

namespace tethys {

constexpr size_t kLeastJumpPoints = 8;   // The least number of batches; fewer cannot have two segments.
constexpr size_t kMostJumpPoints = 512;  // The most batches; more would take too long and too much memory.

struct Jumps {
  std::vector<double> value = {};            // The time of each batch: lower quartiles over the rounds.
  double error = 0;                          // The relative standard error of the values.
  std::vector<proto::Segment> segment = {};  // The segments between the jumps.
  std::vector<proto::Jump> jump = {};
};

// Requires a time of every batch in at least one round, and at most kMostJumpPoints batches. With fewer than
// kLeastJumpPoints batches there is one segment.
Jumps FindJumps(const RoundTimes& rounds, uint64_t seed);

// The smallest jump, as a share of the step, that FindJumps finds in curves like this one at least 9 times of
// 10, at most one batch from its true place. For each of several sizes, it makes 20 curves from the fit and
// the residuals of the rounds. 0: not even the largest size, 10 %, is found so often.
double DetectableJump(const RoundTimes& rounds, uint64_t seed);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_JUMP_TEST_H_
