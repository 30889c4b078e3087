// Paths of data on the chief's machine, chief://PATH, relative to the working directory of the chief like
// other paths. A path may be a pattern (glob(7)) where the format takes one, and a folder where it takes
// that. Pure.
#ifndef TETHYS_RUNTIME_DATA_CHIEF_PATHS_H_
#define TETHYS_RUNTIME_DATA_CHIEF_PATHS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// A path that the job names with chief://, without that.
struct ChiefPath {
  std::string path;
  std::string member;    // Of an archive: "#x_train" of "mnist.npz#x_train"; otherwise empty.
  bool pattern = false;  // Its field takes patterns.
};

// The path of `text`, or nullopt if that is no path of the chief.
absl::optional<ChiefPath> ChiefPathOf(absl::string_view text, bool pattern);

// Calls `replace` for each path of the data's source, and puts what it returns in its place: one path, or, in
// a field with several, any number.
void ReplacePaths(proto::Data& data,
                  absl::FunctionRef<std::vector<std::string>(const std::string& path, bool several)> replace);

// The paths of the data that name files on the chief's machine, in the order of the fields. InvalidArgument:
// an empty path, or a path with "..".
absl::StatusOr<std::vector<ChiefPath>> ChiefPathsOf(const proto::Data& data);

// The data with chief:// left out of all paths: as processes on the chief's machine read them.
proto::Data OnChiefsMachine(const proto::Data& data);

// Whether a file is one of those that `named` names: the path itself, one that matches its pattern, or one
// below its folder.
bool Covers(const ChiefPath& named, const std::string& file);

// Whether a path has no "..", so that it does not leave the folder that it is in. It may be absolute.
bool StaysBelow(absl::string_view path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_CHIEF_PATHS_H_
