// Readings of one GPU from NVIDIA's management library (NVML). The library comes with the driver and is
// opened at run time, so every process can be built and run without it. A worker that computes on a GPU has
// one NvmlGpu, used by one thread at a time. Read blocks on the driver, for well below a millisecond.
#ifndef TETHYS_RUNTIME_TELEMETRY_NVML_H_
#define TETHYS_RUNTIME_TELEMETRY_NVML_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "runtime/base/status.h"

namespace tethys {

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// Readings of the whole GPU, including other programs on it. A value that the GPU does not report is absent.
struct GpuReading {
  absl::optional<double> percent;  // Busy share of the driver's last sampling period (up to 1 s).
  absl::optional<int64_t> memory_bytes;
  absl::optional<double> power_watts;
};

class NvmlGpu {
 public:
  // `uuid`: the GPU's UUID, 16 bytes, as CUDA reports it (not its index, which CUDA_VISIBLE_DEVICES changes).
  // NotFound: no such library, or no such GPU. FailedPrecondition: the library lacks a function, or cannot
  // reach the driver. Errors name the library.
  static absl::StatusOr<std::unique_ptr<NvmlGpu>> Open(const std::string& uuid,
                                                       const std::string& library = kNvmlLibrary);
  virtual ~NvmlGpu() = default;

  // A value that cannot be read is absent; the first failure is logged.
  virtual GpuReading Read() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_NVML_H_
