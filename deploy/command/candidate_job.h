// The ways to run one job among which `tethys advise` chooses. Thread-compatible.
#ifndef TETHYS_DEPLOY_COMMAND_CANDIDATE_JOB_H_
#define TETHYS_DEPLOY_COMMAND_CANDIDATE_JOB_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "deploy/calibrate/anchors.h"
#include "deploy/command/shaped_job.h"
#include "deploy/predict/advice.h"
#include "proto/calibration.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// All shapes for which so many slots suffice: local, mirrored, and servers, bulk-synchronous or asynchronous.
std::vector<AnchorShape> AllShapes(int slots);

// Checks that the hosts have the data of the job, which brief runs, on noise, would not notice: those of the
// shape with the most workers. Fails as PlaceJobs. No-op without a host file or for synthetic data.
absl::Status CheckHostsForData(const Flags& flags, const BaseJob& base);

// The job as a candidate, with its prediction. Fails as Predict (step_model.h). ResourceExhausted: a computer
// does not have the memory that its processes of the job need.
absl::StatusOr<Candidate> PredictCandidate(const ShapedJob& job, const proto::Calibration& calibration);

struct CandidateJobs {
  std::vector<Candidate> candidates;
  std::vector<ShapedJob> jobs;     // By candidate.
  std::set<std::string> left_out;  // Why shapes are not among them: a line each.
};
// The job in all shapes and, where its hosts differ, in all uses of the hosts (host_uses.h); of ways that
// differ only by which of some equal hosts run what, the first. `change` is called with each prediction.
// FailedPrecondition: no synchronous shape is possible.
absl::StatusOr<CandidateJobs> FindCandidates(const BaseJob& base, const proto::Calibration& calibration,
                                             const std::function<void(proto::Prediction&)>& change);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_CANDIDATE_JOB_H_
