// The names of a job's classes. Reads folders and small files; any thread.
#ifndef TETHYS_RUNTIME_DATA_CLASS_NAMES_H_
#define TETHYS_RUNTIME_DATA_CLASS_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// One name per class: data.class_name, or else the names that the data have. Empty: there are no names, or
// their number differs from the number of classes. Requires that the data can be read. Names are UTF-8
// without control characters, so that messages, terminals and tables can show them.
absl::StatusOr<std::vector<std::string>> ClassNamesOf(const proto::Data& data);

// `name` with each control character and each byte that is not UTF-8 replaced by a question mark.
std::string CleanClassName(absl::string_view name);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CLASS_NAMES_H_
