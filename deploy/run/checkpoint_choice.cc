#include "deploy/run/checkpoint_choice.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/checkpoint_store.h"

namespace tethys {
namespace {

constexpr size_t kMostNamed = 5;

bool IsCheckpoint(const std::string& path) { return FileExists(absl::StrCat(path, "/", kManifestFile)); }

// Lists all checkpoints in `folder`, then the newest checkpoint in FOLDER/checkpoints and the newest one in
// each run directory in `folder`.
std::vector<std::string> CheckpointsNear(const std::string& folder) {
  std::vector<std::string> found;
  const auto add_newest = [&found](const std::string& root) {
    const auto entries = ListCheckpoints(root);
    if (entries.ok() && !entries->empty()) found.push_back(entries->back().path);
  };
  if (const auto entries = ListCheckpoints(folder); entries.ok()) {
    for (const CheckpointEntry& entry : *entries) found.push_back(entry.path);
  }
  add_newest(folder + "/checkpoints");
  std::vector<std::string> names = ListDirectory(folder).value_or(std::vector<std::string>());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) add_newest(absl::StrCat(folder, "/", name, "/checkpoints"));
  return found;
}

// A text that names the checkpoints near `path`: in the parent folder of `path` or, if the parent folder has
// none, in the folder above.
std::string ThereAre(std::string path) {
  for (int level = 0; level < 2; ++level) {
    const size_t slash = path.rfind('/');
    path = slash == std::string::npos ? "." : path.substr(0, slash);
    std::vector<std::string> found = CheckpointsNear(path);
    if (found.empty()) continue;
    const size_t more = found.size() > kMostNamed ? found.size() - kMostNamed : 0;
    found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(more));
    return absl::StrCat("; there is ", absl::StrJoin(found, ", "),
                        more > 0 ? absl::StrCat(" and ", more, " more") : "");
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> FindCheckpoint(const std::string& given) {
  const std::string path(given.size() > 1 ? absl::StripSuffix(given, "/") : absl::string_view(given));
  if (IsCheckpoint(path)) return path;
  if (!FileExists(path)) return absl::NotFoundError(absl::StrCat(path, " does not exist", ThereAre(path)));
  for (const std::string& root : {path + "/checkpoints", path}) {
    TETHYS_ASSIGN_OR_RETURN(const LatestCheckpoint latest, FindLatestCheckpoint(root));
    if (!latest.path.empty()) return latest.path;
    if (!latest.damaged.empty()) {
      const DamagedCheckpoint& newest = latest.damaged.front();
      return absl::DataLossError(
          absl::StrCat(root, " holds no undamaged checkpoint: ", newest.path, ": ", newest.reason));
    }
  }
  return absl::NotFoundError(absl::StrCat(path, " holds no checkpoint", ThereAre(path + "/.")));
}

}  // namespace tethys
