// The one place that makes devices: a worker's, the CPU or its GPU among those of its host, and that of a
// process that evaluates by itself. Called by the thread that uses the device, once; blocks while NVIDIA's
// libraries load. FailedPrecondition and NotFound say what the host lacks.
#ifndef TETHYS_WORKERS_DEVICE_FACTORY_H_
#define TETHYS_WORKERS_DEVICE_FACTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "proto/chief.pb.h"
#include "runtime/cluster/task_options.h"
#include "runtime/device/device.h"

namespace tethys {

// Workers of a host take its GPUs by their local ranks, unless each is shown GPUs of its own.
int GpuOf(const TaskOptions& task, const proto::Setup& setup);

// GPU `gpu`, where the kind is CUDA; with the threads or the precision of `config`.
absl::StatusOr<std::unique_ptr<Device>> CreateDeviceOf(proto::Device::Kind kind, const proto::Device& config,
                                                       int gpu,
                                                       const std::vector<std::string>& cuda_library_path);

// As the job of `setup` and the worker's host ask.
absl::StatusOr<std::unique_ptr<Device>> CreateWorkerDevice(const TaskOptions& task,
                                                           const proto::Setup& setup);

}  // namespace tethys

#endif  // TETHYS_WORKERS_DEVICE_FACTORY_H_
