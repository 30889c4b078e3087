#include "runtime/base/random.h"

#include <numeric>
#include <utility>

#include "runtime/base/status.h"

namespace tethys {

RandomStream::RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t a)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(purpose)},
      high_{static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32)} {}

std::array<uint32_t, 4> RandomStream::Block(uint64_t counter) const {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::array<uint32_t, 4> x{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), high_[0],
                            high_[1]};
  uint32_t key0 = key_[0], key1 = key_[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * x[0], product1 = kMultiplier1 * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

uint32_t RandomStream::Next32() {
  if (used_ == 4) {
    block_ = Block(counter_++);
    used_ = 0;
  }
  return block_[used_++];
}

uint32_t RandomStream::NextBelow(uint32_t bound) {
  TETHYS_CHECK(bound > 0);
  uint64_t product = static_cast<uint64_t>(Next32()) * bound;
  if (static_cast<uint32_t>(product) < bound) {
    const uint32_t threshold = -bound % bound;
    while (static_cast<uint32_t>(product) < threshold) product = static_cast<uint64_t>(Next32()) * bound;
  }
  return static_cast<uint32_t>(product >> 32);
}

std::vector<uint32_t> RandomPermutation(RandomStream stream, int64_t count) {
  TETHYS_CHECK(count >= 0 && count < (int64_t{1} << 32));
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (int64_t i = count - 1; i > 0; --i) {
    std::swap(order[i], order[stream.NextBelow(static_cast<uint32_t>(i + 1))]);
  }
  return order;
}

uint64_t Fnv1a(const void* data, size_t size, uint64_t start) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t hash = start;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

}  // namespace tethys
