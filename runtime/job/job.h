// Values that many callers derive from a resolved job. Pure; any thread.
#ifndef TETHYS_RUNTIME_JOB_JOB_H_
#define TETHYS_RUNTIME_JOB_JOB_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace tethys {

// Samples per update over all workers.
int64_t GlobalBatch(const proto::Job& job);

// Samples per batch in every worker's compiled model. If the workers' shares of the global batch differ, this
// is the larger share.
int64_t BatchPerWorkerRows(const proto::Job& job);

// "sgd, momentum 0.9, weight_decay 0.0001": the kind and its fields, by their names in the job file, without
// fields that are 0 or false and without the learning rate.
std::string OptimizerText(const proto::Optimizer& optimizer);

// False for a field of `tuning`, or a part of such a field, that the job's strategy does not use. True for
// every other path. Does not consider whether the device uses the field.
bool UsesField(absl::string_view path, const proto::Job& job);

// A hash of the job's deterministic serialization: the same in every process of one build.
uint64_t JobHash(const proto::Job& job);

// The job in text format, as in a job file.
std::string ResolvedText(const proto::Job& job);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_JOB_H_
