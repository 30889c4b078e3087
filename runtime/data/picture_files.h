// Finds the picture files in folders, and reads them. Blocks on the disk; any thread.
#ifndef TETHYS_RUNTIME_DATA_PICTURE_FILES_H_
#define TETHYS_RUNTIME_DATA_PICTURE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys {

// The names in a folder, sorted. Left out are hidden names, and names that systems add on their own:
// __MACOSX, @eaDir, Thumbs.db.
struct NamesInFolder {
  std::vector<std::string> pictures;  // Files called *.png, *.jpg or *.jpeg, in upper or lower case.
  std::vector<std::string> folders;
  std::vector<std::string> others;
};
// NotFound: the folder cannot be read. The two functions below have this error, too.
absl::StatusOr<NamesInFolder> ListFolder(const std::string& folder);
absl::StatusOr<std::vector<std::string>> FolderNamesIn(const std::string& folder);
absl::StatusOr<std::vector<std::string>> PictureNamesIn(const std::string& folder);

// The pictures in the folder and in all folders below it: paths relative to `folder`, sorted. `others`
// becomes the number of other files.
absl::StatusOr<std::vector<std::string>> PicturesUnder(const std::string& folder, int64_t& others);

// The first of some names or paths, for messages: "1.webp, 2.webp, ...".
std::string FirstNames(const std::vector<std::string>& names);

// The first bytes of a file, by default as many as KindOfPicture usually needs. Valid until the next call on
// this thread; empty: the file cannot be read.
absl::Span<const uint8_t> ReadPictureBeginning(const std::string& path, size_t bytes = 1 << 12);

// All bytes of a picture's file, valid until the next call on this thread. Has the errors of OpenLocalFile;
// InvalidArgument: more than 1 GiB.
absl::StatusOr<absl::Span<const uint8_t>> ReadPictureFile(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_PICTURE_FILES_H_
