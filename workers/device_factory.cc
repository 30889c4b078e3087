#include "workers/device_factory.h"

#include <string>

#include "runtime/cluster/job_plan.h"
#include "runtime/device/cuda_loader.h"

namespace tethys {

int GpuOf(const TaskOptions& task, const proto::Setup& setup) {
  return task.own_gpus ? 0 : setup.self().local_rank();
}

absl::StatusOr<std::unique_ptr<Device>> CreateDeviceOf(proto::Device::Kind kind, const proto::Device& config,
                                                       int gpu,
                                                       const std::vector<std::string>& cuda_library_path) {
  if (kind == proto::Device::CPU) return CreateCpuDevice(config.threads_per_rank());
  return CreateCudaDevice(
      {.folder = ProgramFolder(), .library_path = cuda_library_path},
      {.index = gpu, .bf16 = config.precision() == proto::Device::BF16, .tf32 = config.tf32()});
}

absl::StatusOr<std::unique_ptr<Device>> CreateWorkerDevice(const TaskOptions& task,
                                                           const proto::Setup& setup) {
  return CreateDeviceOf(DeviceOf(setup.plan(), task.index), setup.plan().job().device(), GpuOf(task, setup),
                        task.cuda_library_path);
}

}  // namespace tethys
