// The work that one step of a job puts on the machines, without the costs of exchanging gradients. The fit of
// these costs (exchange_fit.h) and the prediction (step_model.h) start from the same work, so they cannot
// disagree about it. Pure.
#ifndef TETHYS_DEPLOY_PREDICT_STEP_NEEDS_H_
#define TETHYS_DEPLOY_PREDICT_STEP_NEEDS_H_

#include <string>
#include <vector>

#include "deploy/predict/computers.h"
#include "deploy/predict/exchange_model.h"
#include "deploy/predict/job_forecast.h"
#include "proto/plan.pb.h"

namespace tethys {

// A part of the gradients that is exchanged as one, such as a bucket.
struct ExchangePart {
  double ready = 0;  // Seconds from the start of the step until the part is ready, while all ranks compute.
  std::vector<ExchangeNeeds> exchange = {};  // The exchanges of this part, which follow one another.
};

struct StepNeeds {
  std::string transport;     // The transport whose step_overhead is added to a step.
  std::string compute_name;  // The host of the worker that computes longest.
  // Seconds: the lower quartile of this worker's step without exchange, while all ranks compute.
  double compute = 0;
  double samples = 0;       // The batch of this worker, times the factor by which other ranks slow it down.
  double backward_end = 0;  // Seconds from the start of the step until the last gradient is ready.
  double straggler = 1;     // The lower quartile of the slowest rank's time, divided by `compute`.
  std::vector<ExchangePart> parts;
  bool extrapolated = false;         // True if the batch lies beyond the measured batches.
  std::vector<PushForecast> pushes;  // One push per server; empty without servers.
};

// The needs of a step of the job. Fails as Predict (step_model.h) does.
absl::StatusOr<StepNeeds> NeedsOfStep(const proto::JobPlan& plan, const Model& model,
                                      const JobMachines& machines, const JobComputers& computers);

// The seconds that a step computes in a run: `compute`, and the extra cost of each sample.
double ComputeSeconds(const StepNeeds& needs, const proto::Calibration& costs);

// The seconds of a step in lock step, and their division by resource.
struct StepTime {
  double seconds = 0;
  double exposed = 0;                // Seconds by which the exchange lengthens the step.
  std::vector<ResourceTime> shares;  // The seconds of the step by resource; they sum to the step's seconds.
  std::vector<ResourceTime> alone;   // In the same order: the step's seconds if it used only this resource.
};
// The time of a step in lock step: the mean over the steps if `mean` is true, otherwise the lower quartile.
StepTime LockStepTime(const StepNeeds& needs, const proto::Calibration& costs, bool mean);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_STEP_NEEDS_H_
