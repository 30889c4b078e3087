// How much device memory the libraries behind a GPU's primitives may take for themselves: the back end grants
// them no more, and forecasts of memory count on it. In bytes.
#ifndef TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_
#define TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_

#include <cstdint>

namespace tethys {

inline constexpr int64_t kMostDenseWorkspace = int64_t{32} << 20;  // Of the products of a dense layer.
inline constexpr int64_t kMostConvolutionWorkspace = int64_t{256} << 20;

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_WORKSPACE_BOUNDS_H_
