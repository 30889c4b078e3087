// Opens shared libraries of Tethys that lie in the program's folder. Only processes that need such a library
// open it, so that the program does not depend on the third-party libraries to which that library is linked.
//
// Such a library exports one C function without arguments, which returns a table. The table's functions take
// C++ types, so both sides must come from one build. Each side carries a fingerprint, which the build
// computes from the headers of the interface, the library's sources and the compiler; the first member of the
// table is a pointer to the library's fingerprint.
#ifndef TETHYS_RUNTIME_BASE_OWN_LIBRARY_H_
#define TETHYS_RUNTIME_BASE_OWN_LIBRARY_H_

#include <functional>
#include <string>

#include "runtime/base/status.h"

namespace tethys {

// True if this process was started from a bundle. A bundle's start script (deploy/bundle.sh) starts the
// dynamic loader with the program as its argument, so the executable file of the process is the loader.
bool RunsInBundle();

// The folder of the running program; in a bundle, the folder lib/ of the bundle.
std::string ProgramFolder();

struct OwnLibrary {
  std::string path;
  const char* entry;        // The name of the C function that returns the table.
  const char* fingerprint;  // The program's own fingerprint.
  std::string if_missing;   // Follows "there is no PATH" in the error for a library that was not built.
  // If a library cannot be loaded, makes the error from the path and the system's reason. If the function is
  // empty, the error consists of the path and the reason.
  std::function<absl::Status(const std::string& path, const std::string& reason)> cannot_open = {};
};

// Opens the library, unless it is open, and returns its table. The library then stays loaded for the life of
// the process. Any thread; blocks while the library loads. FailedPrecondition: the library is missing, cannot
// be loaded, or is of another build.
absl::StatusOr<const void*> OpenOwnLibrary(const OwnLibrary& library);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_OWN_LIBRARY_H_
