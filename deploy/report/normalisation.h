// The number of samples over which batch normalisation takes mean and variance. With several workers,
// micro-batches or virtual replicas, this is a part of the batch. Different numbers make the model a
// different function, so results may differ for this reason alone, whatever the strategy. Pure; any thread.
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
// The job must be resolved.
int64_t NormalisedSamples(const proto::Job& job);

// A remark such as "batch normalisation: 2 samples are normalised together, not the global batch of 16,
// because ..."; empty if the whole global batch is normalised together, or nothing is normalised.
std::string NormalisationRemark(const proto::Job& job);

// An entry for JobDifferences if the jobs normalise different numbers of samples together, otherwise none.
std::vector<proto::JobDifference> NormalisationDifference(absl::Span<const proto::Job> jobs);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_NORMALISATION_H_
