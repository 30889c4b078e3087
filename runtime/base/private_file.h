// Files that hold secrets. Only the caller may read or write them, with one exception: a file that root owns
// and a group of the caller may read, because the caller cannot change such a file. Kubernetes mounts secrets
// in this way for a pod that is not root (fsGroup; mode 0440). Blocks on local files; any thread.
#ifndef TETHYS_RUNTIME_BASE_PRIVATE_FILE_H_
#define TETHYS_RUNTIME_BASE_PRIVATE_FILE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// Opens the file for reading, without waiting for a writer if it is a pipe. `secret` names the contents, such
// as "the token". Errors name the path and the remedy. PermissionDenied: as CheckPrivate. InvalidArgument:
// the path is a folder.
absl::StatusOr<FileDescriptor> OpenPrivateFile(const std::string& path, const char* secret);

struct PrivateFileFacts {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
};
struct PrivateFileReader {
  uid_t user = 0;
  std::vector<gid_t> groups = {};
};
// PermissionDenied: users other than the reader may read or write the file, or it belongs to another user.
// Pure.
absl::Status CheckPrivate(const PrivateFileFacts& file, const PrivateFileReader& reader,
                          const std::string& path, const char* secret);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_PRIVATE_FILE_H_
