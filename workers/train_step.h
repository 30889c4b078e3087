// One training step, from batch to next parameters, the same under every strategy.
#ifndef TETHYS_WORKERS_TRAIN_STEP_H_
#define TETHYS_WORKERS_TRAIN_STEP_H_

#include "runtime/nn/plan.h"
#include "runtime/strategy.h"
#include "runtime/telemetry/step_recorder.h"
#include "workers/batch_feed.h"
#include "workers/step_phases.h"

namespace tethys {

// What a step needs; borrowed. Used by the training thread.
struct TrainStepParts {
  Plan& plan;
  Strategy& strategy;
  StepRecorder& recorder;
  BatchFeed& feed;  // Its next batch is the step's.
  StepPhases& phases;
};

// Runs one step. No heap memory is allocated here.
// FailedPrecondition: the loss or a gradient is not finite; the parameters are as before the step, on every
// worker. Otherwise the errors of Strategy.
absl::Status TrainStep(const TrainStepParts& parts, const StepInfo& step);

// What it is made of; a StepPipeline puts it together otherwise.
//
// Takes the batch and begins the step.
absl::Status BeginTrainStep(const TrainStepParts& parts, const StepInfo& step);
// Forward and backward; `ready` hears of each range of gradients. On a device that goes on alone this is
// stream work only, which a graph may capture.
absl::Status ComputeGradients(const TrainStepParts& parts, Plan::ReadyCallback ready);
// Tells the strategy of a range.
absl::Status AnnounceGradients(const TrainStepParts& parts, int64_t index, const Event& event);
// The exchange, driven by the host, and the end of the step.
absl::Status FinishTrainStep(const TrainStepParts& parts, const StepInfo& step);
// Refuses a loss that is not finite, and ends the record of a step that has happened.
absl::Status EndTrainStep(const TrainStepParts& parts, const StepInfo& step,
                          const absl::StatusOr<StepOutcome>& outcome, const LossResult& loss);

}  // namespace tethys

#endif  // TETHYS_WORKERS_TRAIN_STEP_H_
