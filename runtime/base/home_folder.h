// The home folder of the user who runs this process, according to the user database. No environment variable
// is read. Any thread.
#ifndef TETHYS_RUNTIME_BASE_HOME_FOLDER_H_
#define TETHYS_RUNTIME_BASE_HOME_FOLDER_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

// NotFound: the user has no home folder.
absl::StatusOr<std::string> HomeFolder();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_HOME_FOLDER_H_
