// Sweeps one machine: measures the step time of a model for many batches by a meter on that machine, fits the
// curve, and tries how large a batch can be. Blocks for as long as the request says; SIGPIPE must be ignored.
// Call it on the main thread.
#ifndef TETHYS_DEPLOY_SWEEP_SWEEP_MACHINE_H_
#define TETHYS_DEPLOY_SWEEP_SWEEP_MACHINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "deploy/process/place.h"
#include "deploy/sweep/meter.h"
#include "proto/plan.pb.h"
#include "proto/sweep.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct SweepRequest {
  proto::JobPlan plan = {};  // The plan of the job; plan.job().device() is the device of the machine.
  std::vector<int64_t> batches = {};
  // Seconds for measuring. The search for the largest batch may take half as long in addition, or 30 s if
  // that is longer.
  double seconds = 60;
  int rounds = 15;
  int64_t memory_bytes = 0;  // The most memory of a step; 0: half of a host's free memory, all of a GPU's.
  bool tries_largest = true;
  std::string scratch = {};
  std::vector<std::string> cuda_library_path = {};
  std::function<void(const std::string&)> status = {};  // Called often, with a short line on the progress.
};

// InvalidArgument: no batch can be measured; the message gives the reason for the first batch. Otherwise
// fails with errors of the machine, such as Unavailable, and as Meter::Start does. If the time ends before
// everything is measured, the result is a curve that says so.
absl::StatusOr<proto::SweepCurve> SweepMachine(const Place& place, const SweepRequest& request);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_SWEEP_MACHINE_H_
