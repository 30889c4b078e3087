#include "runtime/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>

namespace tethys {
namespace {

using Block = std::array<uint32_t, 4>;

// Philox4x32-10 of a counter and a key, whose words are in the order of the paper on Philox.
Block Philox(Block counter, std::array<uint32_t, 2> key) {
  constexpr auto kPurpose = RandomPurpose::kTest;
  const uint64_t seed = uint64_t{key[1] ^ static_cast<uint32_t>(kPurpose)} << 32 | key[0];
  const RandomStream stream(seed, kPurpose, uint64_t{counter[3]} << 32 | counter[2]);
  return stream.Block(uint64_t{counter[1]} << 32 | counter[0]);
}

// Known answers from the file kat_vectors of Random123, the library by Philox's authors.
TEST(RandomStreamTest, IsPhilox4x32With10Rounds) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStreamTest, Next32ReturnsTheWordsOfTheBlocksInOrder) {
  RandomStream stream(5, RandomPurpose::kTest, 9);
  const RandomStream blocks(5, RandomPurpose::kTest, 9);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(stream.Next32(), blocks.Block(i / 4)[i % 4]) << i;
}

TEST(RandomStreamTest, SeedPurposeAndKeyEachSelectAnotherStream) {
  const Block block = RandomStream(5, RandomPurpose::kTest, 9).Block(0);
  EXPECT_NE(RandomStream(6, RandomPurpose::kTest, 9).Block(0), block);
  EXPECT_NE(RandomStream(5, RandomPurpose::kShuffle, 9).Block(0), block);
  EXPECT_NE(RandomStream(5, RandomPurpose::kTest, 10).Block(0), block);
}

TEST(RandomStreamTest, NextBelowIsUniformOverItsRange) {
  RandomStream stream(1, RandomPurpose::kTest, 0);
  constexpr int kDraws = 60000;
  std::array<int, 6> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts.at(stream.NextBelow(6));
  // The tolerance is five standard deviations of a binomial count with p = 1/6.
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 6, 457);
}

TEST(RandomStreamTest, NextBelowOneIsZero) {
  RandomStream stream(1, RandomPurpose::kTest, 0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(stream.NextBelow(1), 0);
}

TEST(RandomStreamTest, UnitFloatsExcludeBothEnds) {
  EXPECT_GT(ToUnitFloat(0), 0.0f);
  EXPECT_LT(ToUnitFloat(0xffffffff), 1.0f);
}

TEST(RandomPermutationTest, ContainsEveryNumberOnce) {
  auto order = RandomPermutation(RandomStream(3, RandomPurpose::kTest, 0), 1000);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  std::vector<uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(order, all);
}

TEST(RandomPermutationTest, ZeroOrOneElementHasOnePermutation) {
  EXPECT_TRUE(RandomPermutation(RandomStream(3, RandomPurpose::kTest, 0), 0).empty());
  EXPECT_EQ(RandomPermutation(RandomStream(3, RandomPurpose::kTest, 0), 1), std::vector<uint32_t>{0});
}

TEST(RandomPermutationTest, EveryOrderOfThreeIsEquallyLikely) {
  std::array<int, 27> counts{};
  constexpr int kDraws = 6000;
  for (int i = 0; i < kDraws; ++i) {
    const auto order = RandomPermutation(RandomStream(i, RandomPurpose::kTest, 0), 3);
    ++counts[order[0] * 9 + order[1] * 3 + order[2]];
  }
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 0), 27 - 6);
  // The tolerance is five standard deviations of a binomial count with p = 1/6.
  for (const int count : counts) EXPECT_TRUE(count == 0 || std::abs(count - kDraws / 6) < 145) << count;
}

TEST(KeyedPermutationTest, ContainsEveryNumberOnce) {
  for (const int64_t count : {1, 2, 3, 4, 5, 15, 16, 17, 1000, 4097}) {
    const KeyedPermutation order(RandomStream(5, RandomPurpose::kTest, 1), count);
    std::vector<int> seen(count);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = order[i];
      ASSERT_TRUE(number >= 0 && number < count) << number;
      EXPECT_EQ(seen[number]++, 0) << number << " of " << count;
      EXPECT_EQ(order.IndexOf(number), i) << count;
    }
  }
}

// In 20,000 permutations of 8 numbers, each number is about equally often at each place: chi-squared with 49
// degrees of freedom is below 85.4 in 99.9 % of all cases.
TEST(KeyedPermutationTest, EveryNumberIsEquallyLikelyAtEveryPlace) {
  constexpr int kSize = 8, kTrials = 20'000;
  std::array<std::array<int, kSize>, kSize> counts{};
  for (int trial = 0; trial < kTrials; ++trial) {
    const KeyedPermutation order(RandomStream(7, RandomPurpose::kTest, trial), kSize);
    for (int i = 0; i < kSize; ++i) ++counts[i][order[i]];
  }
  double chi_squared = 0;
  constexpr double kExpected = static_cast<double>(kTrials) / kSize;
  for (const auto& row : counts) {
    for (const int count : row) chi_squared += (count - kExpected) * (count - kExpected) / kExpected;
  }
  EXPECT_LT(chi_squared, 85.4);
}

TEST(KeyedPermutationTest, NeighboursInLargePermutationsAreFarApart) {
  constexpr int64_t kCount = int64_t{1} << 40;
  const KeyedPermutation order(RandomStream(5, RandomPurpose::kTest, 1), kCount);
  std::set<int64_t> numbers;
  double distance = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(order[i] >= 0 && order[i] < kCount);
    numbers.insert(order[i]);
    distance += std::abs(static_cast<double>(order[i + 1] - order[i])) / kCount;
  }
  EXPECT_EQ(numbers.size(), 1000u);
  // Two independent uniform numbers from [0, 1] have a mean distance of 1/3.
  EXPECT_NEAR(distance / 1000, 1.0 / 3, 0.05);
}

TEST(Fnv1aTest, HasItsPublishedValues) {
  EXPECT_EQ(Fnv1a("", 0), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv1a("a", 1), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(Fnv1a("foobar", 6), 0x85944171f73967e8u);
  EXPECT_EQ(Fnv1a("bar", 3, Fnv1a("foo", 3)), Fnv1a("foobar", 6));
}

}  // namespace
}  // namespace tethys
