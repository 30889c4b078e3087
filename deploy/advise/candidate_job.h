// The candidates of `tethys advise`: the ways to run one job. Thread-compatible.
#ifndef TETHYS_DEPLOY_ADVISE_CANDIDATE_JOB_H_
#define TETHYS_DEPLOY_ADVISE_CANDIDATE_JOB_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "deploy/advise/shaped_job.h"
#include "deploy/calibrate/anchors.h"
#include "deploy/predict/advice.h"
#include "proto/calibration.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// All shapes that fit into `slots` slots: local, mirrored, and with parameter servers, either
// bulk-synchronous or asynchronous.
std::vector<AnchorShape> AllShapes(int slots);

// Checks that the hosts have the data of the job, for the shape with the most workers. Brief runs would not
// notice missing data, because they train on synthetic samples. Fails as PlaceJobs does. Does nothing without
// a host file or for synthetic data.
absl::Status CheckHostsForData(const Flags& flags, const BaseJob& base);

// The job as a candidate, with its prediction. Fails as Predict (step_model.h). ResourceExhausted: a computer
// does not have the memory that its processes of the job need.
absl::StatusOr<Candidate> PredictCandidate(const ShapedJob& job, const proto::Calibration& calibration);

struct CandidateJobs {
  std::vector<Candidate> candidates;
  std::vector<ShapedJob> jobs;     // One job per candidate.
  std::set<std::string> left_out;  // One line, with the reason, for each shape that is left out.
};
// Returns the job in all shapes and, if its hosts differ, with all uses of the hosts: a use may leave hosts
// out, or let them run only servers or only workers (host_uses.h). If uses differ only in which of several
// equal hosts they take, only the first of these uses is a candidate. `change` is called with each prediction
// and may change it. FailedPrecondition: no synchronous shape is possible.
absl::StatusOr<CandidateJobs> FindCandidates(const BaseJob& base, const proto::Calibration& calibration,
                                             const std::function<void(proto::Prediction&)>& change);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_CANDIDATE_JOB_H_
