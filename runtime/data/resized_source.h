// Changes the size of samples (data.resize), for formats that do not do so when they decode a picture.
#ifndef TETHYS_RUNTIME_DATA_RESIZED_SOURCE_H_
#define TETHYS_RUNTIME_DATA_RESIZED_SOURCE_H_

#include <memory>

#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/sample_source.h"

namespace tethys {

// `spec` with the size that data.resize gives its images and its maps of labels; unchanged without
// data.resize. InvalidArgument: the samples are no images [height, width] or [height, width, channels].
absl::StatusOr<SampleSpec> ResizedSpec(const proto::Data& data, const SampleSpec& spec);

// Returns a source that resizes the samples of `source` to `spec`, which ResizedSpec returned for the spec of
// `source`. Returns `source` itself if the two specs are equal.
std::shared_ptr<const SampleSource> Resized(std::shared_ptr<const SampleSource> source,
                                            const SampleSpec& spec);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_RESIZED_SOURCE_H_
