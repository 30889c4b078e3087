// Tests whether step time jumps after all multiples of a period, as a published study of CNNs on GPUs saw
// after 16, 32, 48 and 64. The size of the jumps is the median over the multiples. At a multiple, the jump is
// the distance between two lines: through the batches of the period before it, and of the period after it. So
// a bend of the curve is not taken for a jump. The formula t(b) = a + s b + q b^2 + J floor((b - 1) / period)
// tells whether another period fits better. Pure: the same times and seed give the same result; any thread.
#ifndef TETHYS_DEPLOY_SWEEP_PERIOD_TEST_H_
#define TETHYS_DEPLOY_SWEEP_PERIOD_TEST_H_

#include <cstdint>

#include "deploy/sweep/round_times.h"
#include "proto/sweep.pb.h"

namespace tethys {

// The verdict is SEEN if
//   1. the 95 % interval of the jumps' size, from resampled rounds, does not contain 0,
//   2. the size is at least 0.5 % of the median step, and
//   3. no other period from 2 to 35 fits equally well or better.
// It is NOT_TESTABLE if
//   1. there are fewer than 7 rounds,
//   2. there are fewer than three multiples of `period` with two measured batches in the period before the
//      multiple and two in the period after it, or
//   3. the measured batches cannot distinguish jumps of this period from a straight line.
proto::PeriodTest TestPeriod(const RoundTimes& rounds, int period, uint64_t seed);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_PERIOD_TEST_H_
