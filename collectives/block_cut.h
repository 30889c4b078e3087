// The rule by which all-reduces cut a vector into one block per rank. All communicators use it, so that they
// add the same elements in the same order.
#ifndef TETHYS_COLLECTIVES_BLOCK_CUT_H_
#define TETHYS_COLLECTIVES_BLOCK_CUT_H_

#include <algorithm>
#include <cstdint>

#include "runtime/tensor/variable.h"

namespace tethys {

// Each rank sends vectors up to this size (16 KiB) directly to every other rank. With n ranks this takes one
// hop instead of 2 (n-1), but transfers n/2 times the bytes. On loopback, the size at which the ring becomes
// faster is 16 to 32 KiB for 3 to 8 ranks, and 64 KiB for 2 ranks.
constexpr int64_t kDirectElements = 4 * 1024;

// The largest number of elements in a frame (256 KiB). A receiver buffers a whole frame before it adds the
// elements and passes them on. On loopback, half this size costs a few per cent more processor time, and
// one eighth of this size costs a third more.
constexpr int64_t kChunkElements = 64 * 1024;

// Block `index` of the `world` blocks of a vector of `count` elements. The first (count mod world) blocks
// have one element more than the others.
inline Range BlockOf(int64_t count, int world, int64_t index) {
  const int64_t size = count / world;
  const int64_t longer = count % world;
  return {.begin = index * size + std::min(index, longer), .count = size + (index < longer ? 1 : 0)};
}

// The block whose sum the ring's reduce-scatter completes on `rank` (ring_communicator.cc).
inline Range RingBlock(int64_t count, int world, int rank) {
  return BlockOf(count, world, (rank + 1) % world);
}

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_BLOCK_CUT_H_
