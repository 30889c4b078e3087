// The identity of the running program: the linker's GNU build id, a hash over the whole binary.
#ifndef TETHYS_RUNTIME_BASE_BUILD_ID_H_
#define TETHYS_RUNTIME_BASE_BUILD_ID_H_

#include <string>

namespace tethys {

// The id in hexadecimal; "unknown" when the binary was linked without one.
std::string BuildId();

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_BUILD_ID_H_
