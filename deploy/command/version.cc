#include "deploy/command/version.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/build_id.h"

extern const char tethys_commit[];  // Written by cmake/commit.cmake.

namespace tethys {
namespace {

std::string VersionText(const std::string& build) {
  const std::string commit = tethys_commit;
  return absl::StrCat("Tethys ", TETHYS_VERSION, commit.empty() ? "" : ", commit ", commit, ", build ",
                      build);
}

}  // namespace

std::string VersionText() { return VersionText(BuildId()); }
std::string ShortVersionText() { return VersionText(BuildId().substr(0, 12)); }

}  // namespace tethys
