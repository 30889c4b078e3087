// Pictures in files of their own: which files of a folder they are, and their bytes. Blocks on the disk; any
// thread.
#ifndef TETHYS_RUNTIME_DATA_PICTURE_FILES_H_
#define TETHYS_RUNTIME_DATA_PICTURE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys {

// The names in a folder, sorted. Hidden ones are left out everywhere, as are those that systems add on their
// own: __MACOSX, @eaDir, Thumbs.db.
struct NamesInFolder {
  std::vector<std::string> pictures;  // Files that are so by their names: .png, .jpg or .jpeg, in any case.
  std::vector<std::string> folders;
  std::vector<std::string> others;
};
// NotFound: the folder cannot be read. The two others have this error, too.
absl::StatusOr<NamesInFolder> ListFolder(const std::string& folder);
absl::StatusOr<std::vector<std::string>> FolderNamesIn(const std::string& folder);
absl::StatusOr<std::vector<std::string>> PictureNamesIn(const std::string& folder);

// The pictures of the folder and of all folders in it: paths relative to `folder`, sorted. `others` becomes
// the number of its other files.
absl::StatusOr<std::vector<std::string>> PicturesUnder(const std::string& folder, int64_t& others);

// "1.webp, 2.webp, ..." of names or paths.
std::string FirstNames(const std::vector<std::string>& names);

// The first bytes of a file, by default as many as KindOfPicture usually needs. They are valid until the next
// call on this thread; empty: it cannot be read.
absl::Span<const uint8_t> ReadPictureBeginning(const std::string& path, size_t bytes = 1 << 12);

// All bytes of a picture's file. They are valid until the next call on this thread. Has the errors of
// OpenLocalFile; InvalidArgument: more than 1 GiB.
absl::StatusOr<absl::Span<const uint8_t>> ReadPictureFile(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_PICTURE_FILES_H_
