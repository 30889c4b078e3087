// A job's setup in sentences for a reader who did not make the run. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_SETUP_TEXT_H_
#define TETHYS_DEPLOY_REPORT_SETUP_TEXT_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/summary.pb.h"

namespace tethys {

// A sentence each for model, data, optimizer and length of training, if the job has them, and for the
// attempts of a resumed run.
std::vector<std::string> DescribeSetup(const proto::Job& job, const proto::RunSummary& summary);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_SETUP_TEXT_H_
