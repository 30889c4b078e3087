// The resources that the runs of a comparison used, from their summaries: CPU, memory, network and GPUs, for
// each variant over all machines together and for each machine. The CSV has mean, minimum and maximum; the
// tables show mean and maximum. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_
#define TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_

#include <string>

#include "absl/types/span.h"
#include "deploy/report/comparison.h"

namespace tethys {

// A table with a row per variant for all machines together. If there are several machines, a second table has
// a row per variant and machine. Empty if no run was sampled. CPU is in percent of all cores of the row's
// machines. Means are averaged over repeats; the maximum is the largest of all repeats. CPU and memory
// include all programs on the machines; further columns have the mean of the job's processes alone, with
// shared memory counted once for each process. `width`: the terminal's width, to which the tables are cut; 0:
// no limit. Columns of GPUs exist if any run reports a GPU. They hold the mean and maximum over the row's
// individual GPUs, in percent, MiB and W.
std::string ResourceTables(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                           absl::Span<const RunRecord> runs, int width = 0);

// For each run, a line for all machines together (host and process empty), a line for each machine (process
// empty) and a line for each process, in the units of the summary: CPU in percent of one core, bytes, bytes
// per second. Cells of GPUs are empty except in lines of processes that use a GPU.
std::string ResourceCsv(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                        absl::Span<const RunRecord> runs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_
