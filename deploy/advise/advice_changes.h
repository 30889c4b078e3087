// Finds at which link rates, computing speeds and numbers of hosts the answer of `tethys advise` would change
// to another strategy (answer_changes.h). For each tried number of hosts, the job file is read again, once
// for every shape (strategy and numbers of processes). Thread-compatible.
#ifndef TETHYS_DEPLOY_ADVISE_ADVICE_CHANGES_H_
#define TETHYS_DEPLOY_ADVISE_ADVICE_CHANGES_H_

#include <string>
#include <vector>

#include "deploy/advise/shaped_job.h"
#include "deploy/predict/advice.h"
#include "proto/calibration.pb.h"

namespace tethys {

// An answer, and the job and calibration from which it was made.
struct AnsweredJob {
  const BaseJob& base;
  const std::vector<Candidate>& candidates;
  const std::vector<ShapedJob>& jobs;  // One job per candidate.
  const AdviceGoal& goal;
  const proto::Calibration& calibration;
};

// Returns a sentence for each property of the machines (rate of links, speed of computing, number of hosts):
// it says at which values of the property another strategy would be the best answer. With one host there are
// no sentences about links and hosts.
std::vector<std::string> AdviceChanges(const AnsweredJob& answered);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_ADVICE_CHANGES_H_
