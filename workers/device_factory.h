// Creates the device of a worker (the CPU, or one GPU of its host) or of `tethys evaluate`. Called once, by
// the thread that uses the device. Blocks while NVIDIA's libraries load. FailedPrecondition and NotFound say
// what the host lacks.
#ifndef TETHYS_WORKERS_DEVICE_FACTORY_H_
#define TETHYS_WORKERS_DEVICE_FACTORY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "runtime/cluster/task_options.h"
#include "runtime/device/device.h"

namespace tethys {

// The number of the worker's GPU: the worker's local rank among the workers of its host, or 0 if the process
// sees only its own GPUs.
int GpuOf(const TaskOptions& task, const proto::Setup& setup);

// Creates a CPU device with the threads of `config`, or a device for GPU number `gpu` with the precision of
// `config`.
absl::StatusOr<std::unique_ptr<Device>> CreateDeviceOf(proto::Device::Kind kind, const proto::Device& config,
                                                       int gpu,
                                                       const std::vector<std::string>& cuda_library_path);

// Creates the device that the job in `setup` specifies for this worker.
absl::StatusOr<std::unique_ptr<Device>> CreateWorkerDevice(const TaskOptions& task,
                                                           const proto::Setup& setup);

// The type of CreateWorkerDevice. Tests replace the function, so that devices of other kinds stand for GPUs.
using MakeDevice = std::function<absl::StatusOr<std::unique_ptr<Device>>(const TaskOptions& task,
                                                                         const proto::Setup& setup)>;

}  // namespace tethys

#endif  // TETHYS_WORKERS_DEVICE_FACTORY_H_
