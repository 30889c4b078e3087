// The work that a step of a job brings to the machines, before any cost of exchanging gradients is known. The
// fit (exchange_fit.h) and the prediction (step_model.h) both add costs to it, so they cannot disagree. Pure.
#ifndef TETHYS_DEPLOY_PREDICT_STEP_NEEDS_H_
#define TETHYS_DEPLOY_PREDICT_STEP_NEEDS_H_

#include <string>
#include <vector>

#include "deploy/predict/computers.h"
#include "deploy/predict/exchange_model.h"
#include "deploy/predict/job_forecast.h"
#include "proto/plan.pb.h"

namespace tethys {

// A part of the gradients that is exchanged at once, such as a bucket.
struct ExchangePart {
  double ready = 0;                          // Seconds since the step's start, with all ranks computing.
  std::vector<ExchangeNeeds> exchange = {};  // One after the other.
};

struct StepNeeds {
  std::string transport;     // The transport whose step_overhead a step has.
  std::string compute_name;  // The host of the worker that computes longest.
  double compute = 0;        // Its step without exchange, lower quartile, with all ranks computing at once.
  double samples = 0;        // That worker's batch, times its slowdown by the other ranks of its computer.
  double backward_end = 0;   // When the last gradient is ready.
  double straggler = 1;      // Lower quartile of the slowest rank's time over `compute`.
  std::vector<ExchangePart> parts;
  bool extrapolated = false;         // The batch lies beyond those measured.
  std::vector<PushForecast> pushes;  // By server; empty without servers.
};

// As Predict (step_model.h) fails.
absl::StatusOr<StepNeeds> NeedsOfStep(const proto::JobPlan& plan, const Model& model,
                                      const JobMachines& machines, const JobComputers& computers);

// The computing of a step in a run: `compute` and what each sample takes beyond it.
double ComputeSeconds(const StepNeeds& needs, const proto::Calibration& costs);

// Seconds of a step in lock step, and what they are spent on.
struct StepTime {
  double seconds = 0;
  double exposed = 0;                // Seconds of the exchange that backward does not hide.
  std::vector<ResourceTime> shares;  // Seconds of the step that each resource accounts for; they sum to it.
  std::vector<ResourceTime> alone;  // In the same order: the step's seconds if there were only this resource.
};
// `mean`: the mean step, otherwise its lower quartile.
StepTime LockStepTime(const StepNeeds& needs, const proto::Calibration& costs, bool mean);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_STEP_NEEDS_H_
