// The identity of the running program: the linker's GNU build id, a hash over the whole binary.
#ifndef TETHYS_RUNTIME_BASE_BUILD_ID_H_
#define TETHYS_RUNTIME_BASE_BUILD_ID_H_

#include <string>

namespace tethys {

// The build id in hexadecimal; "unknown" if the program was linked without a build id.
std::string BuildId();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_BUILD_ID_H_
