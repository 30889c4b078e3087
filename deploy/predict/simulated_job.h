// Turns a job that has no closed form into a simulation (step_simulation.h). Pure; any thread.
#ifndef TETHYS_DEPLOY_PREDICT_SIMULATED_JOB_H_
#define TETHYS_DEPLOY_PREDICT_SIMULATED_JOB_H_

#include "deploy/predict/computers.h"
#include "deploy/predict/machines.h"
#include "deploy/predict/step_needs.h"
#include "deploy/predict/step_simulation.h"
#include "proto/plan.pb.h"

namespace tethys {

// The simulated cluster of a job with servers; `needs`: the needs of the job's step.
absl::StatusOr<SimulatedCluster> ClusterOf(const proto::JobPlan& plan, const JobMachines& machines,
                                           const JobComputers& computers, const StepNeeds& needs,
                                           const proto::Calibration& calibration);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_SIMULATED_JOB_H_
