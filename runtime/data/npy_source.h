// Reads samples in a NumPy array without labels.
#ifndef TETHYS_RUNTIME_DATA_NPY_SOURCE_H_
#define TETHYS_RUNTIME_DATA_NPY_SOURCE_H_

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/data/sample_source.h"

namespace tethys {

// Reads the array at `path`. All labels are 0, in the format `labels`. InvalidArgument: values of other types
// than uint8 and float32, or an array with one axis. Also the errors of OpenNpyArray.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenNpySamples(const std::string& path,
                                                                   const LabelFormat& labels);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_NPY_SOURCE_H_
