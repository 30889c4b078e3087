// What a job trains, in sentences for somebody who was not there. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_SETUP_TEXT_H_
#define TETHYS_DEPLOY_REPORT_SETUP_TEXT_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

// Model, data, optimizer and length of training, a sentence each, as far as the job says; of a run that was
// resumed also its attempts.
std::vector<std::string> DescribeSetup(const proto::Job& job, const proto::RunSummary& summary);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_SETUP_TEXT_H_
