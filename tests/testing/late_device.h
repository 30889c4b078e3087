// A simulated asynchronous device that is as late as the contract of Device allows. Enqueued work runs only
// when the host waits for it or queries an event that was recorded after it, and the host may not use device
// memory. So code that misses a wait, or an order between two streams, computes with stale data. Its
// primitives are the primitives of the CPU device.
//
// As with every device, only one thread may use it.
#ifndef TETHYS_TESTS_TESTING_LATE_DEVICE_H_
#define TETHYS_TESTS_TESTING_LATE_DEVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace tethys::testing {

struct LateDeviceOptions {
  std::string identity = "";  // The result of Device::identity; empty: the device joins no group.
  std::function<absl::StatusOr<std::unique_ptr<StreamCommunicator>>(const StreamGroup&)> join = {};
  std::vector<std::string>* ranges = nullptr;  // Receives "name number" for BeginRange, "" for EndRange.
  bool hangs = false;                          // Queries of events run no work; only Synchronize does.
  // The memory that is free at the start; memory that is freed later is not added.
  int64_t memory_bytes = int64_t{1} << 40;
};

// The device's time for each piece of work on a stream, as timed events report it.
inline constexpr Nanoseconds kWorkTime = kMicrosecond;

// Enqueues work on a stream of a late device, as a library such as NCCL does on a real device.
void EnqueueWork(Stream& stream, std::function<absl::Status()> work);
// Enqueues work that may have to wait for other devices: while it returns false, it is tried again whenever
// the host looks at the stream.
void EnqueueWaitingWork(Stream& stream, std::function<absl::StatusOr<bool>()> work);

// The number of existing graphs that the late device captured.
int LiveGraphs(const Device& device);

std::unique_ptr<Device> CreateLateDevice(LateDeviceOptions options = {});

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_LATE_DEVICE_H_
