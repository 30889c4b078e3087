// The text of a prediction, printed by `tethys plan` and before a run starts. Pure; any thread.
#ifndef TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_
#define TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/prediction.pb.h"

namespace tethys {

// A line for each of step, samples a second, epoch, total, cost, start-up, staleness and memory, with its 90
// % interval, and lines that say which resources limit the speed of a step and how far to trust the
// prediction. `source` says where the prediction comes from. A prediction without a step time has only the
// lines that can be computed from the plan alone.
std::string PredictionText(const proto::Prediction& prediction, const proto::Job& job,
                           const std::string& source);

// The prediction of a job with another number of workers.
struct WorkersPrediction {
  int workers = 0;
  proto::Prediction prediction;
  int machines = 0;  // The number of machines of a host file that the job uses; 0: there is no host file.
};
// A table with a row for each number of workers: machines, step, samples a second, epoch, total and cost,
// with their 90 % intervals. Below the table is a line for each remark on how far to trust a prediction. Each
// prediction must have a step time.
std::string PredictionTable(const std::vector<WorkersPrediction>& predictions, const std::string& source);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_PREDICTION_TEXT_H_
