// Names the calling thread's work within a scope in a profiler's timeline. Used by a device's thread.
//
//   const ProfilerRange range(device, "step", step.step);
#ifndef TETHYS_RUNTIME_DEVICE_PROFILER_RANGE_H_
#define TETHYS_RUNTIME_DEVICE_PROFILER_RANGE_H_

#include <cstdint>

#include "runtime/device/device.h"

namespace tethys {

class ProfilerRange {
 public:
  // Calls Device::BeginRange.
  ProfilerRange(Device& device, const char* name, int64_t number) : device_(device) {
    device_.BeginRange(name, number);
  }
  ~ProfilerRange() { device_.EndRange(); }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  Device& device_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_PROFILER_RANGE_H_
