// The share of the CPU that other programs used during a run. Experiments use it to detect disturbed runs.
// Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_OTHERS_CPU_H_
#define TETHYS_DEPLOY_REPORT_OTHERS_CPU_H_

#include "absl/types/optional.h"
#include "proto/summary.pb.h"

namespace tethys {

// RunSummary.others_cpu if the run has it. Otherwise, for runs on several machines, the largest share on any
// computer: the CPU use of the computer minus the CPU use of the job's processes on all hosts that share its
// kernel. In [0, 1]. nullopt: the run was not sampled.
absl::optional<double> OthersCpuOf(const proto::RunSummary& summary);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_OTHERS_CPU_H_
