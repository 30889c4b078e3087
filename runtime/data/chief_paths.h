// Paths of data on the chief's machine, chief://PATH, relative to the working directory of the chief like
// other paths. A path may be a pattern (glob(7)) or a folder if the format accepts one. Pure.
#ifndef TETHYS_RUNTIME_DATA_CHIEF_PATHS_H_
#define TETHYS_RUNTIME_DATA_CHIEF_PATHS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// A path that the job names with chief://, without this prefix.
struct ChiefPath {
  std::string path;
  std::string member;    // The member of an archive: "#x_train" of "mnist.npz#x_train"; otherwise empty.
  bool pattern = false;  // The path's field accepts patterns.
};

// The path of the chief that `text` names; nullopt if `text` is no such path.
absl::optional<ChiefPath> ChiefPathOf(absl::string_view text, bool pattern);

// Calls `replace` for each path of the data's source, and replaces the path by the result. `several` is true
// for a path in a repeated field. The result is one path or, if `several` is true, any number of paths.
void ReplacePaths(proto::Data& data,
                  absl::FunctionRef<std::vector<std::string>(const std::string& path, bool several)> replace);

// The paths of the data that name files on the chief's machine, in the order of the fields. InvalidArgument:
// an empty path, or a path with "..".
absl::StatusOr<std::vector<ChiefPath>> ChiefPathsOf(const proto::Data& data);

// The data with chief:// removed from all paths, as processes on the chief's machine read them.
proto::Data OnChiefsMachine(const proto::Data& data);

// True if `named` names `file`: `file` is the path itself, matches the pattern, or lies below the folder.
bool Covers(const ChiefPath& named, const std::string& file);

// True if the path has no "..", so that it does not leave its folder. The path may be absolute.
bool StaysBelow(absl::string_view path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CHIEF_PATHS_H_
