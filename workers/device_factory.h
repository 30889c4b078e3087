// The one place that makes devices: that of a worker (the CPU, or one GPU of its host) and that of
// `tethys evaluate`. Called once, by the thread that uses the device; blocks while NVIDIA's libraries load.
// FailedPrecondition and NotFound say what the host lacks.
#ifndef TETHYS_WORKERS_DEVICE_FACTORY_H_
#define TETHYS_WORKERS_DEVICE_FACTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "runtime/cluster/task_options.h"
#include "runtime/device/device.h"

namespace tethys {

// The worker's GPU: its local rank among the workers of its host, or 0 if the process sees only GPUs of its
// own.
int GpuOf(const TaskOptions& task, const proto::Setup& setup);

// A CPU with the threads of `config`, or GPU `gpu` with its precision.
absl::StatusOr<std::unique_ptr<Device>> CreateDeviceOf(proto::Device::Kind kind, const proto::Device& config,
                                                       int gpu,
                                                       const std::vector<std::string>& cuda_library_path);

// The device that the job of `setup` and the worker's host ask for.
absl::StatusOr<std::unique_ptr<Device>> CreateWorkerDevice(const TaskOptions& task,
                                                           const proto::Setup& setup);

}  // namespace tethys

#endif  // TETHYS_WORKERS_DEVICE_FACTORY_H_
