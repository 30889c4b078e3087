// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): numbers that are a
// fixed function of a key and a position, without state. RandomStream (random.h) and the devices' kernels use
// the same code, so they get the same bits. Plain constexpr C++, which nvcc accepts.
//
// The functions have internal linkage, because sources that are compiled once per instruction set
// (device/cpu/) include this file.
#ifndef TETHYS_RUNTIME_BASE_PHILOX_H_
#define TETHYS_RUNTIME_BASE_PHILOX_H_

#include <cstdint>

namespace tethys {

struct PhiloxKey {
  uint32_t low, high;
};
struct PhiloxBlock {
  uint32_t words[4];
};

// The four numbers at one position. `low` and `high` are the halves of the 128-bit position, which the paper
// calls the counter.
static constexpr PhiloxBlock Philox4x32(PhiloxKey key, uint64_t low, uint64_t high) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t x0 = static_cast<uint32_t>(low), x1 = static_cast<uint32_t>(low >> 32);
  uint32_t x2 = static_cast<uint32_t>(high), x3 = static_cast<uint32_t>(high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * x0, product1 = kMultiplier1 * x2;
    x0 = static_cast<uint32_t>(product1 >> 32) ^ x1 ^ key.low;
    x1 = static_cast<uint32_t>(product1);
    x2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ key.high;
    x3 = static_cast<uint32_t>(product0);
    key.low += kWeyl0;
    key.high += kWeyl1;
  }
  return {{x0, x1, x2, x3}};
}

// Uniform in (0, 1), never 0 or 1. Nothing is rounded, so the result has the same bits on every device.
static constexpr float ToUnitFloat(uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f;
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_PHILOX_H_
