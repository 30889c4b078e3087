// The chief's side of chief:// files: lists the files that a job names, and reads these files. Workers fetch
// the files from the chief (chief_copies.h). Immutable and thread-safe.
#ifndef TETHYS_RUNTIME_DATA_CHIEF_FILES_H_
#define TETHYS_RUNTIME_DATA_CHIEF_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "proto/chief.pb.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

class ChiefFiles {
 public:
  static constexpr int64_t kChunk = 1 << 20;

  // Finds the files that the data name, and reads each file once for its checksum. Blocks while it reads.
  // InvalidArgument: a link leads out of the folder that the job names.
  static absl::StatusOr<ChiefFiles> List(const proto::Data& data);

  // The files, in the order in which the job names them.
  const std::vector<proto::ChiefFile>& files() const { return files_; }

  // Calls `take` with the bytes from `offset` on, at most kChunk at a time, until the end of the file or an
  // error of `take`. PermissionDenied: the file is not one of files(). InvalidArgument: `offset` lies beyond
  // the end. DataLoss: the file has changed since List.
  absl::Status Read(const std::string& path, int64_t offset,
                    absl::FunctionRef<absl::Status(absl::string_view bytes)> take) const;

 private:
  struct Place {
    std::string real;     // The path with all links resolved.
    std::string version;  // The text of ByteSource::version.
  };
  absl::Status Add(const std::string& path, const std::string& folder);

  std::vector<proto::ChiefFile> files_;
  std::map<std::string, Place> places_;
};

// If a host other than the chief's has all of these files, it has the data. The files are those of DataFiles,
// without the files of the chief (chief://).
absl::StatusOr<std::vector<std::string>> DataFilesOfWorkers(const proto::Data& data);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CHIEF_FILES_H_
