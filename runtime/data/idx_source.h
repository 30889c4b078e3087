// Reads images in an IDX file without labels.
#ifndef TETHYS_RUNTIME_DATA_IDX_SOURCE_H_
#define TETHYS_RUNTIME_DATA_IDX_SOURCE_H_

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/data/sample_source.h"

namespace tethys {

// Reads the file at `path`. All labels are 0, in the format `labels`. Has the errors of ReadIdx.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenIdxImages(const std::string& path,
                                                                  const LabelFormat& labels);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_IDX_SOURCE_H_
