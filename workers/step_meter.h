// Measures training steps of a job's model on one device, for any batch: a replica without chief, exchange
// and data. Samples are synthetic bytes or floats of the job's shape. The learning rate is so small that
// parameters stay near their initial values. Used by `tethys meter`, whose answers are the data of sweeps and
// calibrations.
//
// Created and used by one thread, which blocks for the steps. The rules of Replica for its thread apply here,
// too.
#ifndef TETHYS_WORKERS_STEP_METER_H_
#define TETHYS_WORKERS_STEP_METER_H_

#include <cstdint>
#include <memory>

#include "proto/plan.pb.h"
#include "proto/sweep.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/clock.h"
#include "runtime/device/device.h"
#include "runtime/telemetry/gpu_company.h"
#include "workers/replica.h"

namespace tethys {

class StepMeter {
 public:
  // The plan gives model, optimizer, device, and the shape of samples and labels; its batch is ignored.
  // `clock` and `company` must outlive the meter. `company`, which finds other processes on a GPU, must
  // already watch the device; on a CPU, `company` is null. InvalidArgument: the plan's model cannot be made.
  // ResourceExhausted: the device lacks memory even for the parameters.
  static absl::StatusOr<std::unique_ptr<StepMeter>> Create(const proto::JobPlan& plan,
                                                           std::unique_ptr<Device> device, const Clock& clock,
                                                           GpuCompany* company);

  // Makes the plan for batches of `batch` samples, makes at most two steps that are not recorded, then
  // records steps for about `time`, but at least 5 steps. If steps take long, there are fewer steps: at least
  // one step is recorded, but no further step begins after 2 s (or after `time`, if `time` is longer).
  // InvalidArgument: the model cannot learn from such a batch. ResourceExhausted: the device lacks the
  // memory.
  absl::StatusOr<proto::StepVisit> Visit(int64_t batch, Nanoseconds time);

  // Makes one step. Errors are those of Visit. `bytes` is the most memory that model and step may have, on
  // the GPU if the job computes there, otherwise on the host; 0: unlimited. A limit on the host's memory is
  // enforced, so a library may end the process when it gets no memory; the GPU's memory is compared with
  // `bytes` after the step.
  absl::Status Try(int64_t batch, int64_t bytes);

  // Describes the machine and the device. Errors are those of the device.
  absl::StatusOr<proto::MeterFacts> Facts();

 private:
  StepMeter(const proto::JobPlan& plan, const Clock& clock, GpuCompany* company);
  absl::Status CreateReplica(std::unique_ptr<Device> device);
  absl::StatusOr<int64_t> UsedMemory(Device& device) const;
  absl::Status Prepare(int64_t batch);
  absl::Status Step(int64_t batch);
  // Makes one step. Further steps begin only before `latest` while fewer than `least` steps were made, and
  // afterwards only before `end`.
  absl::Status Steps(int64_t batch, int least, Nanoseconds end, Nanoseconds latest);
  void DropRecords();
  // Adds to `visit` the longest pause of the GPU at this time, if the device can measure pauses.
  absl::Status AddPause(proto::StepVisit& visit);
  absl::Status AddMemory(int64_t batch, proto::StepVisit& visit);
  // ResourceExhausted: model and step hold more than `most` bytes of the GPU.
  absl::Status CheckMemory(int64_t most);

  const proto::JobPlan plan_;
  const int64_t micro_batches_;
  const Clock& clock_;
  GpuCompany* const company_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Stream> stream_;  // Made by the replica's device, for AddPause.
  bool on_gpu_ = false;
  int64_t step_ = 0;
  int64_t used_before_ = 0;  // The result of UsedMemory before the model was made.
  int64_t own_before_ = 0;   // The result of OwnMemory before the model was made.
  proto::StepRecords records_;
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_STEP_METER_H_
