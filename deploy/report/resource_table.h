// What the runs of a comparison used: CPU, memory, network and GPUs, mean, least and most, for each variant
// over the whole cluster (the form of study 1's tables) and for each machine. The tables show mean and most.
// From the runs' summaries. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_
#define TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_

#include <string>

#include "absl/types/span.h"
#include "deploy/report/comparison.h"

namespace tethys {

// All machines together, and where there are several each by itself; nothing where no run was sampled. CPU is
// in percent of all cores of the row's machines. Over repeats, means are averaged, and the most is that of
// any run. CPU and memory are those of everything on the machines; beside them stands what of it the job's
// processes used in the mean, memory that they share counted for each. `width`: as in comparison.h. Columns
// about GPUs are there where any run tells of one; a row's are then over all its GPUs, in percent, MiB and W
// of one.
std::string ResourceTables(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                           absl::Span<const RunRecord> runs, int width = 0);

// A line per run and cluster (host and process empty), machine (process empty) and process, in the units of
// the summary: CPU in percent of one core, bytes, bytes a second. GPUs are their processes'; cells are empty
// elsewhere.
std::string ResourceCsv(absl::Span<const VariantLabel> labels, absl::Span<const Variation> variations,
                        absl::Span<const RunRecord> runs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_RESOURCE_TABLE_H_
