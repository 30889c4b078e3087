// A folder for temporary files of one command, in TMPDIR or else in /tmp. The ScratchDirectory removes the
// folder when destroyed. The folder of a killed command stays, and the next command of the same user removes
// it; locks tell which commands still run. Blocks on local files; thread-compatible.
#ifndef TETHYS_DEPLOY_PROCESS_SCRATCH_DIRECTORY_H_
#define TETHYS_DEPLOY_PROCESS_SCRATCH_DIRECTORY_H_

#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class ScratchDirectory {
 public:
  // Errors name the folder, and say that TMPDIR can name another folder.
  static absl::StatusOr<ScratchDirectory> Create();
  // Creates the folder in `parent`, whatever TMPDIR says.
  static absl::StatusOr<ScratchDirectory> CreateIn(const std::string& parent);
  ~ScratchDirectory();
  ScratchDirectory(ScratchDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  const std::string& path() const { return path_; }

 private:
  ScratchDirectory(std::string path, FileDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FileDescriptor lock_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_SCRATCH_DIRECTORY_H_
