// Readings of one GPU from NVIDIA's management library (NVML). The library comes with the driver and is
// opened at run time, so every process can be built and run without the library. A worker that computes on a
// GPU has one NvmlGpu, used by one thread at a time. Read blocks on the driver, for well below a millisecond.
#ifndef TETHYS_RUNTIME_TELEMETRY_NVML_H_
#define TETHYS_RUNTIME_TELEMETRY_NVML_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/base/status.h"

namespace tethys {

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// Readings of the whole GPU, including other programs on it. A value that the GPU does not report is absent.
struct GpuReading {
  absl::optional<double> percent;  // Busy percentage of the driver's last sampling period (up to 1 s).
  absl::optional<int64_t> memory_bytes;
  absl::optional<double> power_watts;
};

// A process that used the GPU. `process` may be a number of another PID namespace.
struct GpuProcessUse {
  uint32_t process = 0;
  double share = 0;  // Share of the time of the GPU's multiprocessors, in [0, 1].
};

class NvmlGpu {
 public:
  // `uuid`: the GPU's UUID, 16 bytes, as CUDA reports it (not its index, which CUDA_VISIBLE_DEVICES changes).
  // NotFound: no such library, or no such GPU. FailedPrecondition: the library lacks a function, or cannot
  // reach the driver. Errors name the library.
  static absl::StatusOr<std::unique_ptr<NvmlGpu>> Open(const std::string& uuid,
                                                       const std::string& library = kNvmlLibrary);
  // All GPUs of the machine whose UUID the library reports; empty if there is none. Errors are those of Open.
  static absl::StatusOr<std::vector<std::unique_ptr<NvmlGpu>>> OpenAll(
      const std::string& library = kNvmlLibrary);
  virtual ~NvmlGpu() = default;

  // The UUID, 16 bytes, as CUDA reports it.
  virtual const std::string& uuid() const = 0;

  // A value that cannot be read is absent; the first failure is logged.
  virtual GpuReading Read() = 0;

  // The processes that have a context on the GPU, this process included. Absent: not known.
  virtual absl::optional<std::vector<uint32_t>> Processes() = 0;
  // The newest share of each process that the driver sampled within the last second. Absent: the driver
  // reports no shares.
  virtual absl::optional<std::vector<GpuProcessUse>> ProcessUse() = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_NVML_H_
