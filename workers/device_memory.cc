#include "workers/device_memory.h"

#include "runtime/tensor/arena.h"

namespace tethys {

absl::Status FillDeviceMemory(Device& device, Stream& stream, absl::Span<float> memory,
                              absl::FunctionRef<absl::Status(absl::Span<float>)> fill) {
  if (device.reads_host_memory()) return fill(memory);
  Arena host(static_cast<int64_t>(memory.size()));
  TETHYS_RETURN_IF_ERROR(fill(host.span()));
  const auto bytes = static_cast<int64_t>(memory.size() * sizeof(float));
  TETHYS_RETURN_IF_ERROR(device.CopyToDevice(stream, memory.data(), host.data(), bytes));
  return stream.Synchronize();
}

absl::Status ReadDeviceMemory(Device& device, Stream& stream, absl::Span<const float> memory,
                              absl::FunctionRef<absl::Status(absl::Span<const float>)> use) {
  if (device.reads_host_memory()) return use(memory);
  Arena host(static_cast<int64_t>(memory.size()));
  const auto bytes = static_cast<int64_t>(memory.size() * sizeof(float));
  TETHYS_RETURN_IF_ERROR(device.CopyToHost(stream, host.data(), memory.data(), bytes));
  TETHYS_RETURN_IF_ERROR(stream.Synchronize());
  return use(host.span());
}

}  // namespace tethys
