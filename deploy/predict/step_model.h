// Predicts a job before it runs: step, epoch, total, cost, staleness, memory, and what bounds the step, from
// the job's plan, its machines and a calibration. Jobs in lock step are predicted by closed forms,
// asynchronous and stale-synchronous jobs by a simulation (step_simulation.h). Pure; any thread. A prediction
// in lock step takes well below a millisecond for small models, so hundreds of candidates can be predicted.
//
// Values without an interval are exact: bytes, memory and the bound of staleness follow from the plan.
#ifndef TETHYS_DEPLOY_PREDICT_STEP_MODEL_H_
#define TETHYS_DEPLOY_PREDICT_STEP_MODEL_H_

#include <vector>

#include "deploy/predict/machines.h"
#include "proto/calibration.pb.h"
#include "proto/plan.pb.h"
#include "proto/prediction.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// A convention: each doubling of a quantity beyond its calibrated values adds this to the half width of a
// prediction's interval, in natural logarithms.
inline constexpr double kWidthPerDoubling = 0.05;

// NotFound: the calibration lacks a host or the links of the job. InvalidArgument: the calibration has
// impossible numbers. Unimplemented: GPUs would sum gradients among themselves.
absl::StatusOr<proto::Prediction> Predict(const proto::JobPlan& plan, const JobMachines& machines,
                                          const proto::Calibration& calibration);

// Predicts without a calibration: bytes of a step, memory, and staleness.
absl::StatusOr<proto::Prediction> PredictWithoutCalibration(const proto::JobPlan& plan,
                                                            const JobMachines& machines);

// The number of updates of the whole run. Half an epoch, for example, counts as half of the epoch's updates.
double UpdatesOfRun(const proto::JobPlan& plan);

// The half width of a 90 % interval by split-conformal prediction: the ceil((n + 1) 0.9)-th smallest of the
// errors |ln(predicted / measured)| of n runs that were not used for fitting. Negative: there are fewer than
// nine runs.
double ConformalHalfWidth(std::vector<double> errors);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_STEP_MODEL_H_
