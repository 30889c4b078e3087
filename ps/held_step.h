// The state of a bulk-synchronous step whose update depends on norms over all servers
// (parameter_store_norms.cc). All but the first two fields keep their values after the step's commit, for
// workers that have not had their answers. Plain data.
#ifndef TETHYS_PS_HELD_STEP_H_
#define TETHYS_PS_HELD_STEP_H_

#include <cstdint>
#include <vector>

namespace tethys {

struct HeldStep {
  int64_t summed = 0;                   // Elements of shards whose sum over all workers is complete.
  bool is_measured = false;             // Slots may have changed for the update already.
  std::vector<double> norm = {};        // Clipping: the sum of squares of this server's gradient sums,
  std::vector<double> total_norm = {};  // and that over all servers, if it was used to measure.
  std::vector<double> measured = {};    // Trust ratios: parameters, measured; for each shard.
  std::vector<double> committed = {};   // What the first commit has brought.
};

}  // namespace tethys

#endif  // TETHYS_PS_HELD_STEP_H_
