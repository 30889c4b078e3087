// Limits in bytes on the device memory that the libraries behind a GPU's primitives use as workspace. The
// back end enforces them, and memory forecasts rely on them.
#ifndef TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_
#define TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_

#include <cstdint>

namespace tethys {

inline constexpr int64_t kMostDenseWorkspace = int64_t{32} << 20;  // Shared by a dense layer's products.
inline constexpr int64_t kMostConvolutionWorkspace = int64_t{256} << 20;

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_
