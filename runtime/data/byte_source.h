// The bytes of a data file, here or on another machine, read at any place. Formats read their files through
// this.
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
  virtual const std::string& name() const = 0;  // For errors: the path or URL.
  virtual int64_t size() const = 0;
  // Changes when the file does, as far as can be seen without reading it, for keys of caches of this host:
  // its size, the times of modification and of the last change (ctime), and the inode. A copy, a link or
  // other rights of the same content are another version. Empty: it cannot be seen.
  virtual std::string version() const { return ""; }
  // Fills `out` with the bytes from `offset` on. Requires that they lie within the size. Blocks. DataLoss:
  // the file has become shorter since it was opened or, on another machine, has changed.
  virtual absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const = 0;
  // Removes a damaged file that is a copy in the host's cache, so that the next start makes it anew. False:
  // it is no copy.
  virtual bool RemoveCopy() const { return false; }
};

// NotFound: no such file. InvalidArgument: not a regular file, or an empty one (IsEmptyFile in empty_file.h).
absl::StatusOr<std::shared_ptr<const ByteSource>> OpenLocalFile(const std::string& path);

// Opens a local file, as OpenLocalFile does, or, if `path` is a URL, a file on another machine, with the
// errors of RemoteFiles::Open (runtime/remote/remote_files.h).
absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFile(const std::string& path);

// Whether a path of a job is a URL, so that no file of the system has it.
bool IsUrlPath(const std::string& path);

// The path with the working directory before it, unless it is absolute or a URL: a name of the file for every
// process of the host.
std::string AbsolutePath(const std::string& path);

// A regular file of this machine without opening it. Has the errors of OpenLocalFile for one that is missing,
// not regular or empty.
struct LocalFileState {
  int64_t size = 0;
  std::string version;  // As ByteSource::version.
};
absl::StatusOr<LocalFileState> StateOfLocalFile(const std::string& path);

// The version of the file, which is opened only if it is elsewhere. NotFound: no such file.
// FailedPrecondition: its server does not say when it changes.
absl::StatusOr<std::string> FileVersion(const std::string& path);

// The paths that `patterns` name, in their order; those of one pattern (glob(7)) in the order of their names.
// A pattern without special characters is a path, whether or not the file exists. NotFound: a pattern without
// a match. For patterns of URLs see RemoteFiles::Expand.
absl::StatusOr<std::vector<std::string>> ExpandPaths(const std::vector<std::string>& patterns);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_BYTE_SOURCE_H_
