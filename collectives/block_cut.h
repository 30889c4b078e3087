// How all-reduces cut a vector into a block for each rank: one rule, so that every one of them adds the same
// elements in the same order.
#ifndef TETHYS_COLLECTIVES_BLOCK_CUT_H_
#define TETHYS_COLLECTIVES_BLOCK_CUT_H_

#include <algorithm>
#include <cstdint>

#include "runtime/tensor/variable.h"

namespace tethys {

// Up to here (16 KiB) a vector goes whole to every other rank: one hop instead of 2 (n-1), for n/2 times the
// bytes. On loopback the ring overtakes between 16 and 32 KiB for 3 to 8 ranks, at 64 KiB for 2.
constexpr int64_t kDirectElements = 4 * 1024;

// Block `index` of `world`. The first (count mod world) have one element more.
inline Range BlockOf(int64_t count, int world, int64_t index) {
  const int64_t size = count / world;
  const int64_t longer = count % world;
  return {.begin = index * size + std::min(index, longer), .count = size + (index < longer ? 1 : 0)};
}

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_BLOCK_CUT_H_
