// Measures training steps at a place (on this machine, or by ssh): starts a process of `tethys meter` there,
// which holds one replica of a job's model and needs no chief. Used by sweeps and calibrations.
//
//   auto meter = *Meter::Start(place, plan, {.scratch = scratch.path(), .name = "0"});
//   const proto::StepVisit visit = *meter->Step(/*batch=*/32, /*milliseconds=*/20);
//
// Every call blocks, with a deadline; SIGPIPE must be ignored. Thread-compatible; call Start on the main
// thread. The process ends with its Meter, and also when this process ends or is killed.
#ifndef TETHYS_DEPLOY_SWEEP_METER_H_
#define TETHYS_DEPLOY_SWEEP_METER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "deploy/process/conversation.h"
#include "deploy/process/place.h"
#include "proto/plan.pb.h"
#include "proto/sweep.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct MeterOptions {
  std::string scratch = {};  // A directory for the process's standard error.
  std::string name = {};     // The name of the process's file in `scratch`; no two live meters may share it.
  int gpu = 0;               // Number of the GPU, if the job's device is a GPU.
  std::vector<std::string> cuda_library_path = {};  // Folders with NVIDIA's libraries.
  // The longest time that an answer may take in addition to the time that the question gives to steps.
  Nanoseconds patience = 120 * kSecond;
};

class Meter {
 public:
  // Starts the process and makes the model of `plan` there, on the device that plan.job().device() names.
  // Fails with errors of the machine, such as Unavailable (ssh), and as StepMeter::Create does.
  static absl::StatusOr<std::unique_ptr<Meter>> Start(const Place& place, const proto::JobPlan& plan,
                                                      const MeterOptions& options);

  const proto::MeterFacts& facts() const { return facts_; }

  // Measures steps with this batch for about `milliseconds`, by StepMeter::Visit (workers/step_meter.h),
  // whose errors it returns. After Unavailable, Aborted and DeadlineExceeded the process is gone, and later
  // calls fail.
  absl::StatusOr<proto::StepVisit> Step(int64_t batch, int64_t milliseconds);

  // Tries one step with this batch in at most `bytes` of memory, counted as in StepMeter::Try; 0: the
  // device's own limit. Returns true if the batch fits, false if not; after false, the process may be gone.
  // An error leaves open whether the batch fits.
  absl::StatusOr<bool> Fits(int64_t batch, int64_t bytes);

  // False once the process is gone.
  bool alive() const { return alive_; }

 private:
  friend std::vector<absl::StatusOr<proto::StepVisit>> StepTogether(const std::vector<Meter*>& meters,
                                                                    int64_t batch, int64_t milliseconds);
  explicit Meter(const MeterOptions& options) : options_(options) {}
  absl::Status Prepare(const proto::JobPlan& plan);
  absl::StatusOr<std::string> Ask(const std::string& question);

  const MeterOptions options_;
  // The conversation with the process; a vector of one, because AskAll takes a vector.
  std::vector<std::unique_ptr<Conversation>> conversation_;
  proto::MeterFacts facts_;
  bool alive_ = true;
};

// Asks all meters at once, so that they compute at the same time. Results are in the order of `meters`.
std::vector<absl::StatusOr<proto::StepVisit>> StepTogether(const std::vector<Meter*>& meters, int64_t batch,
                                                           int64_t milliseconds);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_METER_H_
