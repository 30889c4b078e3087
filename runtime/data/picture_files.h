// Pictures in files of their own: which files of a folder they are, and their bytes. Blocks on the disk; any
// thread.
#ifndef TETHYS_RUNTIME_DATA_PICTURE_FILES_H_
#define TETHYS_RUNTIME_DATA_PICTURE_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys {

// The names in a folder, sorted; hidden ones are left out. NotFound: the folder cannot be read.
absl::StatusOr<std::vector<std::string>> FolderNamesIn(const std::string& folder);
// Of its files that are pictures by their names: .png, .jpg or .jpeg, in any case.
absl::StatusOr<std::vector<std::string>> PictureNamesIn(const std::string& folder);
// The same for the folder and all folders in it: paths relative to `folder`, sorted.
absl::StatusOr<std::vector<std::string>> PicturesUnder(const std::string& folder);

// All bytes of a picture's file. They are valid until the next call on this thread. Has the errors of
// OpenLocalFile; InvalidArgument: more than 1 GiB.
absl::StatusOr<absl::Span<const uint8_t>> ReadPictureFile(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_PICTURE_FILES_H_
