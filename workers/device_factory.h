// The one place that makes a worker's device: the CPU, or its GPU among those of its host. Called by the
// training thread, once; blocks while NVIDIA's libraries load.
#ifndef TETHYS_WORKERS_DEVICE_FACTORY_H_
#define TETHYS_WORKERS_DEVICE_FACTORY_H_

#include <memory>

#include "proto/chief.pb.h"
#include "runtime/cluster/task_options.h"
#include "runtime/device/device.h"

namespace tethys {

// Workers of a host take its GPUs in the order of their indices: how many of the workers on the host of
// `worker` come before it.
int GpuOf(int worker, const proto::Setup& setup);

// As the job of `setup` asks. FailedPrecondition and NotFound say what the host lacks.
absl::StatusOr<std::unique_ptr<Device>> CreateWorkerDevice(const TaskOptions& task,
                                                           const proto::Setup& setup);

}  // namespace tethys

#endif  // TETHYS_WORKERS_DEVICE_FACTORY_H_
