// Other processes on the GPU that this process measures, as the driver reports them (nvml.h). Used by `tethys
// meter`, on the thread that computes. Calls block on the driver, for some milliseconds at most.
//
//   GpuCompany company;                // Before the process has a context on any GPU.
//   ... the device is made ...
//   company.Watch(device.identity());
//   GpuCompanyReading now = company.Read();
//
// The driver may number processes in another PID namespace, where this process does not know its own number.
// So this process is assumed to be the one that is on the GPU after the context was made but was not on the
// GPU before.
#ifndef TETHYS_RUNTIME_TELEMETRY_GPU_COMPANY_H_
#define TETHYS_RUNTIME_TELEMETRY_GPU_COMPANY_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/telemetry/nvml.h"

namespace tethys {

struct GpuCompanyReading {
  // Other processes with a context on the GPU, whether they compute or not. Absent: not known.
  absl::optional<int> processes;
  // The share of the multiprocessors' time that other processes used, in [0, 1], according to the newest
  // sample that the driver took in the last second. Absent: the driver does not report the share.
  absl::optional<double> share;
};

class GpuCompany {
 public:
  // Lists the processes of all GPUs. Without the driver's library, all readings stay absent.
  explicit GpuCompany(const std::string& library = kNvmlLibrary);

  // `uuid` names the GPU on which this process has a context now, as in NvmlGpu::Open.
  void Watch(const std::string& uuid);

  // All readings are absent before Watch, and for a GPU that was not listed.
  GpuCompanyReading Read();

 private:
  struct Listed {
    std::unique_ptr<NvmlGpu> gpu;
    absl::optional<std::vector<uint32_t>> before;  // Processes on the GPU before this process had a context.
  };
  std::map<std::string, Listed> listed_;  // GPUs by UUID.
  NvmlGpu* gpu_ = nullptr;                // The watched GPU, in listed_.
  // The numbers that may be this process's own in the driver's list. If there are several numbers, other
  // processes appeared at the same time as this process, and `share` stays absent.
  std::set<uint32_t> own_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_GPU_COMPANY_H_
