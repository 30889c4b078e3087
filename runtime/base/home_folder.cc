#include "runtime/base/home_folder.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

namespace tethys {

absl::StatusOr<std::string> HomeFolder() {
  std::vector<char> buffer(1 << 14);
  passwd entry;
  passwd* found = nullptr;
  const int error = getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found);
  if (error == 0 && found != nullptr && found->pw_dir != nullptr && found->pw_dir[0] == '/') {
    return std::string(found->pw_dir);
  }
  return absl::NotFoundError(absl::StrCat("user ", geteuid(), " has no home directory"));
}

}  // namespace tethys
