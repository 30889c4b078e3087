// The ways to run one job among which `tethys advise` chooses. Thread-compatible.
#ifndef TETHYS_DEPLOY_COMMAND_CANDIDATE_JOB_H_
#define TETHYS_DEPLOY_COMMAND_CANDIDATE_JOB_H_

#include <vector>

#include "deploy/calibrate/anchors.h"
#include "deploy/command/shaped_job.h"
#include "deploy/predict/advice.h"
#include "proto/calibration.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// All shapes for which so many slots suffice: local, mirrored, and servers, bulk-synchronous or asynchronous.
std::vector<JobShape> AllShapes(int slots);

// The job as a candidate, with its prediction. Fails as Predict (step_model.h). ResourceExhausted: a computer
// does not have the memory that its processes of the job need.
absl::StatusOr<Candidate> PredictCandidate(const ShapedJob& job, const proto::Calibration& calibration);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_CANDIDATE_JOB_H_
