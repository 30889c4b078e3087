// A device that is as late as the contract allows: work put on a stream happens when somebody waits for it,
// or looks whether it has happened, and its memory is none of the host's. Whoever forgets to wait, or to
// order one stream behind another, computes with what lay there before. Primitives are the CPU's.
//
// Used by one thread, as every device.
#ifndef TETHYS_TESTS_TESTING_LATE_DEVICE_H_
#define TETHYS_TESTS_TESTING_LATE_DEVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace tethys::testing {

struct LateDeviceOptions {
  std::string identity = "";  // As Device::identity; empty: it joins no group.
  std::function<absl::StatusOr<std::unique_ptr<StreamCommunicator>>(const StreamGroup&)> join = {};
  std::vector<std::string>* ranges = nullptr;  // Gets "name number" where a range begins, "" where one ends.
  bool hangs = false;  // Events never happen by being looked at; only Synchronize makes work happen.
  int64_t memory_bytes = int64_t{1} << 40;  // What is given back does not count as free again.
};

// What the device takes for each piece of work on a stream, as timed events tell it.
inline constexpr Nanoseconds kWorkTime = kMicrosecond;

// Puts more work on a stream of a late device: what a library of the device's would do.
void PutWork(Stream& stream, std::function<absl::Status()> work);

// How many graphs there are that a late device captured.
int LiveGraphs(const Device& device);

std::unique_ptr<Device> CreateLateDevice(LateDeviceOptions options = {});

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_LATE_DEVICE_H_
