// The error for a file of 0 bytes. A reader of a data set of several files recognises this error by
// IsEmptyFile, because single files of such a set may be empty. Pure; any thread.
#ifndef TETHYS_RUNTIME_BASE_EMPTY_FILE_H_
#define TETHYS_RUNTIME_BASE_EMPTY_FILE_H_

#include "absl/strings/cord.h"
#include "runtime/base/status.h"

namespace tethys {

inline constexpr char kEmptyFilePayload[] = "tethys.empty_file";

inline absl::Status AsEmptyFile(absl::Status status) {
  status.SetPayload(kEmptyFilePayload, absl::Cord());
  return status;
}

// InvalidArgument: "NAME: the file is empty: REMEDY".
inline absl::Status EmptyFileError(absl::string_view name, absl::string_view remedy) {
  return AsEmptyFile(absl::InvalidArgumentError(absl::StrCat(name, ": the file is empty: ", remedy)));
}

inline bool IsEmptyFile(const absl::Status& status) {
  return status.GetPayload(kEmptyFilePayload).has_value();
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_EMPTY_FILE_H_
