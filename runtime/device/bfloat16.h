// A bfloat16 as it lies in memory: the upper half of a float32's bits, so its range with 8 significant bits.
// Devices make and widen them (device.h) and sum them (stream_communicator.h); on the host nothing computes
// with them.
#ifndef TETHYS_RUNTIME_DEVICE_BFLOAT16_H_
#define TETHYS_RUNTIME_DEVICE_BFLOAT16_H_

#include <cstdint>

namespace tethys {

enum class Bfloat16 : uint16_t {};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DEVICE_BFLOAT16_H_
