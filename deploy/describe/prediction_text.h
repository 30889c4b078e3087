// The text of a prediction, printed by `tethys plan` and before a run starts. Pure; any thread.
#ifndef TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_
#define TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/prediction.pb.h"

namespace tethys {

// A line for each of step, samples a second, epoch, total, cost, start-up, staleness and memory, with its 90
// % interval, and lines on what bounds the step and how far to trust the prediction. `source` says where the
// prediction comes from. A prediction without a step has only the lines that follow from the plan.
std::string PredictionText(const proto::Prediction& prediction, const proto::Job& job,
                           const std::string& source);

// The prediction of a job with another number of workers.
struct WorkersPrediction {
  int workers = 0;
  proto::Prediction prediction;
  int machines = 0;  // The number of machines of a host file that the job uses; 0: there is no host file.
};
// A table with a row for each number of workers: machines, step, samples a second, epoch, total and cost,
// with their 90 % intervals; and a line for each prediction with a remark on how far to trust it. Each
// prediction must have a step.
std::string PredictionTable(const std::vector<WorkersPrediction>& predictions, const std::string& source);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_
