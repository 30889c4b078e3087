// A directory under /tmp that its ScratchDirectory removes when destroyed. Thread-compatible.
#ifndef TETHYS_DEPLOY_PROCESS_SCRATCH_DIRECTORY_H_
#define TETHYS_DEPLOY_PROCESS_SCRATCH_DIRECTORY_H_

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class ScratchDirectory {
 public:
  static absl::StatusOr<ScratchDirectory> Create() {
    std::string path = "/tmp/tethys-ssh-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot make ", path));
    return ScratchDirectory(std::move(path));
  }
  ~ScratchDirectory() {
    if (!path_.empty()) RemoveRecursively(path_).IgnoreError();
  }
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_SCRATCH_DIRECTORY_H_
