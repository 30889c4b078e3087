// Files that hold secrets: only their owner may read or write them, and the owner is the caller. Blocks on
// local files; any thread.
#ifndef TETHYS_RUNTIME_BASE_PRIVATE_FILE_H_
#define TETHYS_RUNTIME_BASE_PRIVATE_FILE_H_

#include <string>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// Opens the file for reading, without waiting for a writer if it is a pipe. `secret` names what it holds,
// such as "the token". Errors name the path and the remedy. PermissionDenied: others than the owner may read
// or write the file, or it belongs to another user. InvalidArgument: it is a folder.
absl::StatusOr<FileDescriptor> OpenPrivateFile(const std::string& path, const char* secret);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_PRIVATE_FILE_H_
