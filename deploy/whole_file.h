// A file that is written in pieces and renamed to its final name once it is complete. Blocks on the disk;
// move-only; thread-compatible.
#ifndef TETHYS_DEPLOY_WHOLE_FILE_H_
#define TETHYS_DEPLOY_WHOLE_FILE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

class WholeFile {
 public:
  // Creates PATH.tmp, or empties an existing PATH.tmp. InvalidArgument: PATH is a directory.
  static absl::StatusOr<WholeFile> Create(const std::string& path);
  WholeFile(WholeFile&&) = default;
  // Removes PATH.tmp unless Commit has succeeded.
  ~WholeFile();

  // Small pieces are collected before they are written.
  absl::Status Append(absl::string_view bytes);
  // Writes the rest, syncs the file and renames it to PATH. Called once.
  absl::Status Commit();

 private:
  WholeFile(std::string path, FileDescriptor fd);
  absl::Status Flush();
  std::string Temporary() const { return path_ + ".tmp"; }

  std::string path_;
  FileDescriptor fd_;  // Not valid once the file is committed or moved from.
  std::string collected_;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_WHOLE_FILE_H_
