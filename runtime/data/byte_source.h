// The bytes of a data file, on this or another machine, read at any position. All formats read their files
// through this interface.
#ifndef TETHYS_RUNTIME_DATA_BYTE_SOURCE_H_
#define TETHYS_RUNTIME_DATA_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys {

// Immutable; thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;  // The path or URL, for errors.
  virtual int64_t size() const = 0;
  // A text that changes when the file changes, as far as this can be seen without reading the file. It is
  // used in keys of caches of this host. It contains the size, the times of modification and of the last
  // change (ctime), and the inode number. A copy, a link, or a change of permissions makes another version,
  // although the content is the same. Empty: not known.
  virtual std::string version() const { return ""; }
  // Fills `out` with the bytes from `offset` on. These bytes must lie within the file. Blocks. DataLoss: the
  // file has become shorter since it was opened or, on another machine, has changed.
  virtual absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const = 0;
  // If the file is a damaged copy in the host's cache, removes the copy, so that the next start fetches it
  // again. Returns false if the file is no copy.
  virtual bool RemoveCopy() const { return false; }
};

// NotFound: no such file. InvalidArgument: not a regular file, or an empty one (IsEmptyFile in empty_file.h).
absl::StatusOr<std::shared_ptr<const ByteSource>> OpenLocalFile(const std::string& path);

// Opens a local file as OpenLocalFile does. If `path` is a URL, opens a file on another machine, with the
// errors of RemoteFiles::Open (runtime/remote/remote_files.h).
absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFile(const std::string& path);

// True if a path of a job is a URL. No local file has such a path.
bool IsUrlPath(const std::string& path);

// Returns an absolute path or a URL unchanged, and puts the working directory before any other path. Every
// process of the host can use the result.
std::string AbsolutePath(const std::string& path);

// The state of a regular local file.
struct LocalFileState {
  int64_t size = 0;
  std::string version;  // The text of ByteSource::version.
};
// Finds the state of a file without opening the file. Has the errors of OpenLocalFile for a file that is
// missing, not regular or empty.
absl::StatusOr<LocalFileState> StateOfLocalFile(const std::string& path);

// The version of the file. Opens the file only if it is on another machine. NotFound: no such file.
// FailedPrecondition: the file's server does not say when the file changes.
absl::StatusOr<std::string> FileVersion(const std::string& path);

// The paths that `patterns` name, in the order of the patterns; the matches of one pattern (glob(7)) are
// sorted by name. A pattern without special characters is a path, whether or not the file exists. NotFound: a
// pattern without a match. For patterns of URLs see RemoteFiles::Expand.
absl::StatusOr<std::vector<std::string>> ExpandPaths(const std::vector<std::string>& patterns);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_BYTE_SOURCE_H_
