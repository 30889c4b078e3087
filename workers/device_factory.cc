#include "workers/device_factory.h"

#include <algorithm>
#include <string>

#include "runtime/cluster/job_plan.h"
#include "runtime/device/cuda_loader.h"

namespace tethys {

int GpuOf(int worker, const proto::Setup& setup) {
  const auto is_worker = [](const proto::Member& member) { return member.role() == proto::WORKER; };
  const auto& members = setup.member();
  const auto self = std::find_if(members.begin(), members.end(), [&](const proto::Member& member) {
    return is_worker(member) && member.index() == worker;
  });
  if (self == members.end()) return 0;
  return static_cast<int>(std::count_if(members.begin(), members.end(), [&](const proto::Member& member) {
    return is_worker(member) && member.host() == self->host() && member.index() < worker;
  }));
}

absl::StatusOr<std::unique_ptr<Device>> CreateWorkerDevice(const TaskOptions& task,
                                                           const proto::Setup& setup) {
  const proto::Device& device = setup.plan().job().device();
  if (DeviceOf(setup.plan(), task.index) == proto::Device::CPU) {
    return CreateCpuDevice(device.threads_per_rank());
  }
  return CreateCudaDevice({.folder = ProgramFolder(), .library_path = task.cuda_library_path},
                          {.index = GpuOf(task.index, setup),
                           .bf16 = device.precision() == proto::Device::BF16,
                           .tf32 = device.tf32()});
}

}  // namespace tethys
