// The resources that the runs of a comparison used, from their summaries: CPU, memory, network and GPUs, as
// mean, minimum and maximum, for each variant over the cluster (in the form of study 1's tables) and for each
// machine. The tables show mean and maximum. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_
#define TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_

#include <string>

#include "absl/types/span.h"
#include "deploy/report/comparison.h"

namespace tethys {

// A table of all machines together and, if there are several, one of each machine; empty if no run was
// sampled. CPU is in percent of all cores of the row's machines. Over repeats, means are averaged, and the
// maximum is that of any run. CPU and memory include all programs on the machines; a further column has the
// mean of the job's processes, with shared memory counted for each. `width`: as in comparison.h. Columns of
// GPUs exist if any run reports one. They hold the mean and maximum over the row's GPUs, each taken by
// itself, in percent, MiB and W.
std::string ResourceTables(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                           absl::Span<const RunRecord> runs, int width = 0);

// A line per run for the cluster (host and process empty), each machine (process empty) and each process, in
// the units of the summary: CPU in percent of one core, bytes, bytes per second. Cells of GPUs are empty
// except in lines of processes that have one.
std::string ResourceCsv(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                        absl::Span<const RunRecord> runs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_
