#include "runtime/base/random.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "runtime/base/status.h"

namespace tethys {

RandomStream::RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t a)
    : key_(RandomKey(seed, purpose)), a_(a) {}

std::array<uint32_t, 4> RandomStream::Block(uint64_t counter) const {
  const auto [words] = Philox4x32(key_, counter, a_);
  return {words[0], words[1], words[2], words[3]};
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

KeyedPermutation::KeyedPermutation(RandomStream stream, int64_t count)
    : stream_(stream),
      count_(static_cast<uint64_t>(count)),
      half_bits_(std::max(1, static_cast<int>(std::bit_width(count_ - 1) + 1) / 2)) {
  TETHYS_CHECK(count >= 1 && count <= (int64_t{1} << 62), count);
}

uint64_t KeyedPermutation::Mixed(int round, uint64_t half) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  return stream_.Block(static_cast<uint64_t>(round) << 32 | half)[0] & mask;
}

int64_t KeyedPermutation::operator[](int64_t index) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
      left = std::exchange(right, left ^ Mixed(round, right));
    }
    value = left << half_bits_ | right;
  } while (value >= count_);
  return static_cast<int64_t>(value);
}

int64_t KeyedPermutation::IndexOf(int64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto index = static_cast<uint64_t>(value);
  do {
    uint64_t left = index >> half_bits_, right = index & mask;
    for (int round = kRounds; round-- > 0;) {
      right = std::exchange(left, right ^ Mixed(round, left));
    }
    index = left << half_bits_ | right;
  } while (index >= count_);
  return static_cast<int64_t>(index);
}

uint64_t Fnv1a(const void* data, size_t size, uint64_t start) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t hash = start;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

}  // namespace tethys
