// Fits the costs of exchanging gradients to short runs of the real programs (anchors). Pure; any thread.
//
// A cost is the exponential of its parameter, so costs stay positive; the costs `norm` and `fairness` lie
// above 1. The sum of squares of ln(predicted / measured) is minimised by Levenberg's and Marquardt's method.
// Few anchors do not determine all costs, so each cost has a weak prior: its usual value (UsualCost), within
// a factor of about 20.
#ifndef TETHYS_DEPLOY_PREDICT_EXCHANGE_FIT_H_
#define TETHYS_DEPLOY_PREDICT_EXCHANGE_FIT_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/predict/machines.h"
#include "proto/calibration.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct AnchorRun {
  proto::JobPlan plan;
  JobMachines machines;
  // Measured seconds of a step: for each step the mean over the workers, then the lower quartile over the
  // steps.
  double step = 0;
  double mean_step = 0;  // The measured mean over all steps and workers, in seconds; 0: not known.
  int repeats = 1;
  // The share of CPU time that other programs used during the run, as in RunSummary.others_cpu; nullopt: not
  // known.
  absl::optional<double> others_cpu = {};
};

// Sets exchange, anchor and log_error of `calibration`, whose computers and links must be set. Runs of one
// transport are fitted together. InvalidArgument: no runs, a time that is not positive, or an asynchronous
// job, whose step has no closed form. Also fails as Predict (step_model.h) does.
absl::Status FitExchangeCosts(const std::vector<AnchorRun>& runs, proto::Calibration& calibration);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_EXCHANGE_FIT_H_
