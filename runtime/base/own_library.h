// Opens libraries of Tethys that lie beside the program and are opened only by processes that need them, so
// that the program itself does not depend on what they link.
//
// Such a library exports one C function without arguments, which returns a table. The table's functions take
// C++ types, so both sides must come from one build. Each side carries a fingerprint, which the build
// computes from the headers of their interface, the library's sources and the compiler; the first member of
// the table is a pointer to the library's.
#ifndef TETHYS_RUNTIME_BASE_OWN_LIBRARY_H_
#define TETHYS_RUNTIME_BASE_OWN_LIBRARY_H_

#include <functional>
#include <string>

#include "runtime/base/status.h"

namespace tethys {

// True if a loader was started with the program as its argument, which is how a bundle's start script
// (deploy/bundle.sh) does it: the executable file of the process is the loader then.
bool RunsInBundle();

// The folder of the running program; in a bundle this is lib/.
std::string ProgramFolder();

struct OwnLibrary {
  std::string path;
  const char* entry;        // The name of the function.
  const char* fingerprint;  // The program's own fingerprint.
  std::string if_missing;   // Follows "there is no PATH" in the error for a library that was not built.
  // Words the error for a library that cannot be loaded, given the system's reason. An empty function: the
  // reason itself.
  std::function<absl::Status(const std::string& path, const std::string& reason)> cannot_open = {};
};

// The library's table. Once opened, the library stays loaded for the life of the process. Any thread; blocks
// while the library loads. FailedPrecondition: the library is missing, cannot be loaded, or is of another
// build.
absl::StatusOr<const void*> OpenOwnLibrary(const OwnLibrary& library);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_OWN_LIBRARY_H_
