// Counter-based random numbers (philox.h). A stream is keyed by a seed and the purpose of its numbers, never
// by rank, thread or order of drawing, so every process draws the same numbers for the same purpose.
// Thread-compatible.
#ifndef TETHYS_RUNTIME_BASE_RANDOM_H_
#define TETHYS_RUNTIME_BASE_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/philox.h"

namespace tethys {

enum class RandomPurpose : uint32_t {
  kInitialValue = 1,  // RandomStream's `a` is the hash of the variable's name.
  // The lower bits of RandomStream's `a` are the epoch; the upper bits are the number of the queue of samples
  // (runtime/data/shuffle.h).
  kShuffle = 2,
  kTest = 3,
  kDropout = 4,  // RandomStream's `a` is the hash of the layer's name.
  kAugment = 5,  // RandomStream's `a` is the sample's position in the job's order of samples.
};

constexpr PhiloxKey RandomKey(uint64_t seed, RandomPurpose purpose) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(purpose)};
}

class RandomStream {
 public:
  RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t a);

  // The four numbers at position `counter`; positions may be read in any order.
  std::array<uint32_t, 4> Block(uint64_t counter) const;

  // The next number; the first call returns the first number of the stream.
  uint32_t Next32();
  // A number that is uniform in [0, bound), bound > 0, without bias (Lemire, "Fast random integer generation
  // in an interval", 2019).
  uint32_t NextBelow(uint32_t bound);

 private:
  PhiloxKey key_;
  uint64_t a_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

// A random permutation of [0, count), by the shuffle of Fisher and Yates. Requires 0 <= count < 2^32.
std::vector<uint32_t> RandomPermutation(RandomStream stream, int64_t count);

// A pseudorandom permutation of [0, count) that computes each element on demand and keeps none in memory. It
// is a balanced Feistel network over the smallest even number of bits that `count` needs; the rounds of the
// network take their numbers from the stream. The network is applied again until its result is below `count`
// ("cycle walking"; Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). It cannot yield every
// permutation, so use it only for counts that are too large for RandomPermutation.
class KeyedPermutation {
 public:
  // Requires 1 <= count <= 2^62.
  KeyedPermutation(RandomStream stream, int64_t count);

  // Requires 0 <= index < count. Pure; any thread.
  int64_t operator[](int64_t index) const;
  // The index of `value`. Requires 0 <= value < count.
  int64_t IndexOf(int64_t value) const;

 private:
  static constexpr int kRounds = 7;
  // The number that a round of the network computes from one half and mixes into the other half by XOR.
  uint64_t Mixed(int round, uint64_t half) const;

  const RandomStream stream_;
  const uint64_t count_;
  const int half_bits_;
};

// The hash FNV-1a of 64 bits, for keys and signatures, not for secrets. `start` is kFnvStart or the hash of
// the data before `data`.
constexpr uint64_t kFnvStart = 0xcbf29ce484222325u;
uint64_t Fnv1a(const void* data, size_t size, uint64_t start = kFnvStart);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_BASE_RANDOM_H_
