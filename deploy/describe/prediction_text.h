// The text of a prediction, printed by `tethys plan` and before a run starts. Pure; any thread.
#ifndef TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_
#define TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_

#include <string>

#include "proto/job.pb.h"
#include "proto/prediction.pb.h"

namespace tethys {

// A line for each of step, samples a second, epoch, total, cost, start-up, staleness and memory, with its 90
// % interval, and lines on what bounds the step and how far to trust the prediction. `source` says where the
// prediction comes from. A prediction without a step has only the lines that follow from the plan.
std::string PredictionText(const proto::Prediction& prediction, const proto::Job& job,
                           const std::string& source);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_
