// The interface of libtethys_remote.so: one C function that returns the table RemoteLibrary
// (runtime/base/own_library.h). Included only by the library and by the code that opens it.
#ifndef TETHYS_RUNTIME_REMOTE_REMOTE_LIBRARY_H_
#define TETHYS_RUNTIME_REMOTE_REMOTE_LIBRARY_H_

#include <memory>

#include "runtime/remote/http_transport.h"

namespace tethys {

struct RemoteLibrary {
  const char* fingerprint;  // The library's own fingerprint; the first member of the table in every build.
  absl::StatusOr<std::unique_ptr<HttpTransport>> (*create_transport)(const HttpDeadlines& deadlines);
};

inline constexpr char kRemoteLibraryName[] = "libtethys_remote.so";
// The name of the C function that returns the table.
inline constexpr char kRemoteLibraryEntry[] = "tethys_remote_library";

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_REMOTE_LIBRARY_H_
