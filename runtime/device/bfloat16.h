// A bfloat16 as stored: the upper half of a float32's bits, so a float32's range with 8 significant bits.
// Devices convert to and from it (device.h) and sum it (stream_communicator.h); the host only stores it.
#ifndef TETHYS_RUNTIME_DEVICE_BFLOAT16_H_
#define TETHYS_RUNTIME_DEVICE_BFLOAT16_H_

#include <cstdint>

namespace tethys {

enum class Bfloat16 : uint16_t {};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_BFLOAT16_H_
