// A bfloat16 as stored: the upper half of a float32's bits. It has the range of a float32 and 8 significant
// bits. Devices convert to and from it, compute with it (device.h) and sum it (stream_communicator.h); the
// host only stores and widens it.
#ifndef TETHYS_RUNTIME_DEVICE_BFLOAT16_H_
#define TETHYS_RUNTIME_DEVICE_BFLOAT16_H_

#include <cstdint>
#include <cstring>

namespace tethys {

enum class Bfloat16 : uint16_t {};

// Converts `value` to a float, exactly.
inline float Widened(Bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float widened;
  std::memcpy(&widened, &bits, sizeof(widened));
  return widened;
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_BFLOAT16_H_
