// The samples that batch normalisation takes mean and variance of. With several workers, micro-batches or
// virtual replicas they are a part of the batch, and a model with other statistics is another function:
// results may differ by that alone, whatever the strategy. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_NORMALISATION_H_
#define TETHYS_DEPLOY_REPORT_NORMALISATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "proto/report.pb.h"

namespace tethys {

inline constexpr char kNormalisedTogether[] = "samples normalised together";

// The samples of a full batch that are normalised together in training; 0: no layer normalises by its batch.
// The job is resolved.
int64_t NormalisedSamples(const proto::Job& job);

// "batch normalisation: 2 samples are normalised together, not the global batch of 16, because ..."; empty if
// the whole global batch is, or nothing is normalised.
std::string NormalisationRemark(const proto::Job& job);

// A difference, as JobDifferences lists fields, if the jobs do not normalise equally many samples together.
std::vector<proto::JobDifference> NormalisationDifference(absl::Span<const proto::Job> jobs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_NORMALISATION_H_
