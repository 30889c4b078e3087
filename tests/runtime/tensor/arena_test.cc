#include "runtime/tensor/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace tethys {
namespace {

constexpr int64_t kHugePage = (2 << 20) / sizeof(float);  // The number of elements in a huge page.

bool AllEqual(const Arena& arena, float number) {
  return std::all_of(arena.data(), arena.data() + arena.size(), [=](float value) { return value == number; });
}

// Allocates arenas of random sizes, fills each with a number of its own, and frees some of them. Every arena
// must be zeroed when it is allocated, and must keep its number until it is freed.
void AllocateAndFree(uint32_t seed) {
  struct Filled {
    Arena arena;
    float number;
  };
  std::mt19937 random(seed);
  std::vector<Filled> living;
  for (int i = 0; i < 200; ++i) {
    const int64_t size =
        std::uniform_int_distribution<int64_t>(1, i % 20 == 0 ? 2 * kHugePage : 50'000)(random);
    absl::StatusOr<Arena> arena = Arena::Allocate(size);
    ASSERT_TRUE(arena.ok()) << arena.status();
    ASSERT_EQ(arena->size(), size);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(arena->data()) % 64, 0u);
    ASSERT_TRUE(AllEqual(*arena, 0));
    living.push_back({*std::move(arena), static_cast<float>(seed * 1000 + i)});
    std::fill_n(living.back().arena.data(), size, living.back().number);
    while (living.size() > 20) {
      Filled& freed = living[std::uniform_int_distribution<size_t>(0, living.size() - 1)(random)];
      ASSERT_TRUE(AllEqual(freed.arena, freed.number));
      std::swap(freed, living.back());
      living.pop_back();
    }
  }
  for (const Filled& filled : living) ASSERT_TRUE(AllEqual(filled.arena, filled.number));
}

TEST(ArenaTest, ArenasDoNotOverlapAndStartWithZeros) { AllocateAndFree(1); }

TEST(ArenaTest, ThreadsCanAllocateAndFreeArenasAtTheSameTime) {
  std::vector<std::thread> threads;
  for (uint32_t seed = 2; seed < 6; ++seed) threads.emplace_back([seed] { AllocateAndFree(seed); });
  for (std::thread& thread : threads) thread.join();
}

TEST(ArenaTest, FreeingOneArenaDoesNotChangeAnotherArena) {
  Arena first(1000), second(1000);
  second.data()[999] = 7;
  first = Arena();
  EXPECT_EQ(second.data()[999], 7);
  first = Arena(1000);
  EXPECT_TRUE(AllEqual(first, 0));
  EXPECT_EQ(second.data()[999], 7);
}

TEST(ArenaTest, MoreMemoryThanTheHostHasIsRefused) {
  const absl::Status refused = Arena::Allocate(InstalledMemory()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
}

}  // namespace
}  // namespace tethys
