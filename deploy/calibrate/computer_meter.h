// Measures the computers of a calibration: the step time of one rank for several batches, and the throughput
// of several ranks that share a computer. Meters (deploy/sweep/meter.h) run on the hosts. Hosts with the same
// kernel and the same CPU control group are one computer. Computers are measured at the same time, but
// computers with the same kernel one after the other. Blocking; SIGPIPE must be ignored. Must be called on
// the main thread.
#ifndef TETHYS_DEPLOY_CALIBRATE_COMPUTER_METER_H_
#define TETHYS_DEPLOY_CALIBRATE_COMPUTER_METER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "deploy/process/place.h"
#include "proto/calibration.pb.h"
#include "proto/plan.pb.h"
#include "proto/sweep.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct MeteredHost {
  std::string host;
  std::string kind;
  int slots = 1;
  proto::Device::Kind device = proto::Device::CPU;
  Place place;
};

struct ComputerRequest {
  proto::JobPlan plan = {};
  std::vector<int64_t> batches = {};  // The batches of one rank to measure, ascending.
  int64_t shared_batch = 0;  // The batch, one of `batches`, with which several ranks are measured together.
  std::vector<MeteredHost> hosts = {};
  double seconds = 8;  // The time after which no further round begins; the first round always runs.
  std::string scratch = {};
  std::vector<std::string> cuda_library_path = {};
};

// One calibration for each computer, in the order of the computers' first hosts. A batch for which a computer
// has too little memory is left out. InvalidArgument: no batch can be measured. Otherwise fails as
// Meter::Start and Meter::Step do. Errors name the host.
absl::StatusOr<std::vector<proto::ComputerCalibration>> MeasureComputers(const ComputerRequest& request);

// The batches of a rank that matter for a job of `global_batch` samples on at most `ranks` ranks: at most
// seven, from global_batch / ranks to twice global_batch, ascending.
std::vector<int64_t> BatchesToMeasure(int64_t global_batch, int ranks);

// The numbers of ranks to measure together on a computer, ascending: 2, `cores` and `slots`, except for
// numbers above `slots`.
std::vector<int> RanksToMeasure(int cores, int slots);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_CALIBRATE_COMPUTER_METER_H_
