#include "runtime/data/epoch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;

TEST(EpochOrderTest, EpochOrderIsAPermutationOfTheSamples) {
  const EpochOrder order(7, 0, 1000);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < order.size(); ++i) seen.insert(order[i]);
  EXPECT_EQ(seen.size(), 1000);
  EXPECT_EQ(*seen.rbegin(), 999);
}

TEST(EpochOrderTest, EpochOrderDependsOnSeedAndEpochOnly) {
  const auto differs = [](const EpochOrder& a, const EpochOrder& b) {
    for (int64_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) return true;
    }
    return false;
  };
  EXPECT_FALSE(differs(EpochOrder(7, 3, 100), EpochOrder(7, 3, 100)));
  EXPECT_TRUE(differs(EpochOrder(7, 3, 100), EpochOrder(7, 4, 100)));
  EXPECT_TRUE(differs(EpochOrder(7, 3, 100), EpochOrder(8, 3, 100)));
}

TEST(EpochOrderTest, OrderOfVeryManySamplesIsComputedOnDemandWithoutATable) {
  constexpr int64_t kSamples = 1'000'000'000'000;
  EXPECT_EQ(EpochOrder::BytesHeld(kSamples), 0);
  EXPECT_EQ(EpochOrder::BytesHeld(EpochOrder::kMostHeld), EpochOrder::kMostHeld * 4);
  const EpochOrder order(1, 2, kSamples), same(1, 2, kSamples), next(1, 3, kSamples);
  EXPECT_EQ(order.size(), kSamples);
  std::set<int64_t> samples;
  int differences = 0;
  for (int64_t position = kSamples - 1000; position < kSamples; ++position) {
    EXPECT_TRUE(order[position] >= 0 && order[position] < kSamples);
    EXPECT_EQ(order[position], same[position]);
    if (order[position] != next[position]) ++differences;
    samples.insert(order[position]);
  }
  EXPECT_EQ(samples.size(), 1000u);
  EXPECT_GT(differences, 990);
}

TEST(EpochOrderTest, FullShuffleIsTheRandomPermutationOfTheSeedAndEpoch) {
  const EpochOrder order(7, 3, 100);
  const std::vector<uint32_t> expected = RandomPermutation(RandomStream(7, RandomPurpose::kShuffle, 3), 100);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(order[i], expected[i]);
}

OrderRules FullRules() { return {.seed = 7, .samples = 100, .split = RankSplit::OfSteps(100, 10, 1)}; }

TEST(EpochOrdersTest, SecondRequestForAnEpoch_ReturnsTheSameOrder) {
  EpochOrders orders(FullRules());
  const auto order = orders.Of(3);
  EXPECT_EQ(orders.Of(3), order);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ((*order)[i], EpochOrder(7, 3, 100)[i]);
}

TEST(EpochOrdersTest, RequestForAnotherEpoch_ReleasesThePreviousOrder) {
  EpochOrders orders(FullRules());
  const std::weak_ptr<const EpochOrder> before = orders.Of(3);
  orders.Of(4);
  EXPECT_TRUE(before.expired());
}

// ------------------------------------------------------------------------------------- shards of ranks

TEST(AssignFilesTest, LongestFilesGoFirstToTheRankWithTheFewestSamples) {
  EXPECT_THAT(AssignFiles({3, 9, 4, 4, 0, 1}, 2), ElementsAre(ElementsAre(1, 5), ElementsAre(0, 2, 3)));
  EXPECT_THAT(AssignFiles({5, 5, 5}, 3), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(AssignFiles({5}, 2), ElementsAre(ElementsAre(0), ElementsAre()));
}

// Files of different sizes, some without samples, with `samples` samples in all.
std::vector<int64_t> Files(int64_t samples, int64_t seed) {
  RandomStream random(seed, RandomPurpose::kTest, samples);
  std::vector<int64_t> files;
  for (int i = 0; i < 6; ++i) {
    files.push_back(random.NextBelow(static_cast<uint32_t>(samples / 3 + 1)));
    files.back() = std::min(files.back(), samples);
    samples -= files.back();
  }
  files.push_back(samples);
  return files;
}

// The number of the file that contains a sample.
int64_t FileOf(const std::vector<int64_t>& files, int64_t sample) {
  int64_t file = 0;
  while (sample >= files[file]) sample -= files[file++];
  return file;
}

struct Case {
  ShuffleRules shuffle;
  Sharding sharding;
  int64_t workers, batch, samples;
  bool in_turns;  // Ranks take whole batches in turns; otherwise they share each step.
};

std::string Name(const Case& c) {
  return absl::StrCat("shuffle ", static_cast<int>(c.shuffle.kind), " (", c.shuffle.block, ", ",
                      c.shuffle.window, "), sharding ", static_cast<int>(c.sharding), ", ", c.workers,
                      " workers, batch ", c.batch, ", ", c.samples, " samples",
                      c.in_turns ? ", in turns" : "");
}

OrderRules RulesOf(const Case& c) {
  const int64_t positions = c.samples * (c.sharding == Sharding::kOff ? c.workers : 1);
  return {.seed = 11,
          .samples = c.samples,
          .shuffle = c.shuffle,
          .sharding = c.sharding,
          .file_samples = Files(c.samples, c.workers),
          .split = c.in_turns ? RankSplit::OfBatches(positions, c.batch, c.workers)
                              : RankSplit::OfSteps(positions, c.batch, c.workers)};
}

std::vector<Case> AllCases() {
  using Kind = ShuffleRules::Kind;
  std::vector<Case> cases;
  for (const ShuffleRules shuffle :
       {ShuffleRules{Kind::kFull}, ShuffleRules{Kind::kNone}, ShuffleRules{Kind::kBlocks, 4, 3},
        ShuffleRules{Kind::kBlocks, 1, 7}, ShuffleRules{Kind::kBlocks, 1000, 1}}) {
    for (const Sharding sharding : {Sharding::kGlobal, Sharding::kFile, Sharding::kData, Sharding::kOff}) {
      for (int64_t workers = 1; workers <= 5; ++workers) {
        for (const int64_t batch : {1, 5, 8, 300}) {
          for (const int64_t samples : {1, 5, 60, 101}) {
            for (const bool in_turns : {false, true}) {
              cases.push_back({shuffle, sharding, workers, batch, samples, in_turns});
            }
          }
        }
      }
    }
  }
  return cases;
}

TEST(EpochOrderTest, EverySampleIsUsedAsOftenAsTheShardingSays) {
  for (const Case& c : AllCases()) {
    SCOPED_TRACE(Name(c));
    const OrderRules rules = RulesOf(c);
    EpochOrders orders(rules, c.workers - 1), same(rules);
    const auto order = orders.Of(2);
    std::vector<int64_t> uses(c.samples);
    for (int64_t position = 0; position < order->size(); ++position) {
      const int64_t sample = (*order)[position];
      ASSERT_TRUE(sample >= 0 && sample < c.samples) << sample;
      EXPECT_EQ((*same.Of(2))[position], sample) << "every process computes the same";
      ++uses[sample];
    }
    const int64_t wanted = c.sharding == Sharding::kOff ? c.workers : 1;
    EXPECT_EQ(uses, std::vector<int64_t>(c.samples, wanted));
  }
}

TEST(EpochOrderTest, RankUsesOnlySamplesOfItsOwnShardExceptForLeftOverSamples) {
  for (const Case& c : AllCases()) {
    if (c.sharding != Sharding::kFile && c.sharding != Sharding::kData) continue;
    SCOPED_TRACE(Name(c));
    const OrderRules rules = RulesOf(c);
    const auto files = AssignFiles(rules.file_samples, c.workers);
    const auto order = EpochOrders(rules).Of(0);
    const auto queues = QueuesOf(rules);
    std::vector<int64_t> owner(c.samples);
    for (int64_t sample = 0; sample < c.samples; ++sample) {
      owner[sample] = sample % c.workers;
      if (c.sharding == Sharding::kData) continue;
      for (int64_t rank = 0; rank < c.workers; ++rank) {
        for (const int64_t file : files[rank]) {
          if (file == FileOf(rules.file_samples, sample)) owner[sample] = rank;
        }
      }
    }
    // If a rank has more samples than positions, the excess samples are used at positions of other ranks. All
    // other samples are used at positions of their own rank.
    int64_t left_over = 0, of_others = 0;
    for (int64_t rank = 0; rank < c.workers; ++rank) {
      const int64_t own = std::count(owner.begin(), owner.end(), rank);
      EXPECT_EQ(queues->SizeOf(rank), own);
      left_over += std::max<int64_t>(0, own - rules.split.CountOf(rank));
    }
    for (int64_t position = 0; position < order->size(); ++position) {
      if (owner[(*order)[position]] != rules.split.PlaceOf(position).rank) ++of_others;
    }
    EXPECT_EQ(of_others, left_over);
    EXPECT_EQ(queues->moved(), left_over);
  }
}

TEST(EpochOrderTest, RanksAndEpochsHaveDifferentOrders) {
  const OrderRules rules = RulesOf({{}, Sharding::kOff, 3, 6, 50, false});
  EpochOrders orders(rules);
  std::vector<std::vector<int64_t>> used(3);
  std::vector<int64_t> next_epoch;
  for (int64_t position = 0; position < rules.split.positions(); ++position) {
    used[rules.split.PlaceOf(position).rank].push_back((*orders.Of(0))[position]);
  }
  for (int64_t position = 0; position < rules.split.positions(); ++position) {
    if (rules.split.PlaceOf(position).rank == 0) next_epoch.push_back((*orders.Of(1))[position]);
  }
  EXPECT_NE(used[0], used[1]);
  EXPECT_NE(used[1], used[2]);
  EXPECT_NE(used[0], next_epoch);
}

TEST(EpochOrderTest, ThreadsThatUseANewOrderAtOnceReadTheSameSamples) {
  const OrderRules rules = RulesOf({{}, Sharding::kOff, 3, 6, 500, false});
  const auto order = EpochOrders(rules).Of(0);
  std::vector<std::vector<int64_t>> seen(4);
  std::vector<std::thread> threads;
  for (std::vector<int64_t>& own : seen) {
    threads.emplace_back([&] {
      for (int64_t position = 0; position < order->size(); ++position) own.push_back((*order)[position]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int64_t>& own : seen) EXPECT_EQ(own, seen[0]);
}

TEST(EpochOrderTest, JobPositionCountsEveryUseOfASampleInEarlierEpochs) {
  const OrderRules rules = RulesOf({{}, Sharding::kOff, 3, 6, 50, false});
  EXPECT_EQ(EpochOrders(rules).Of(2)->JobPositionOf(7), 2 * 150 + 7);
  EXPECT_EQ(EpochOrders(rules).Of(2)->samples(), 50);
}

// -------------------------------------------------------------------------------------------- shuffles

OrderRules BlockRules(int64_t samples, int64_t block, int64_t window) {
  return {.seed = 5,
          .samples = samples,
          .shuffle = {ShuffleRules::Kind::kBlocks, block, window},
          .split = RankSplit::OfSteps(samples, 10, 1)};
}

TEST(BlockShuffleTest, SamplesOfAWindowComeFromTheBlocksOfThatWindow) {
  // The last blocks have 50, 3, 49 and 40 samples, respectively.
  for (const int64_t samples : {1000, 1003, 1049, 40}) {
    const auto order = EpochOrders(BlockRules(samples, 50, 4)).Of(1);
    std::set<int64_t> seen_blocks, blocks;
    int64_t in_window = 0;
    const int64_t last = (samples - 1) / 50;
    const auto size_of = [&](int64_t block) { return block == last ? samples - 50 * last : 50; };
    for (int64_t position = 0; position < samples; ++position) {
      blocks.insert((*order)[position] / 50);
      ++in_window;
      int64_t whole = 0;
      for (const int64_t block : blocks) whole += size_of(block);
      EXPECT_LE(blocks.size(), 4u) << "at position " << position << " of " << samples;
      if (in_window < whole || (blocks.size() < 4 && position + 1 < samples)) continue;
      for (const int64_t block : blocks) {
        EXPECT_TRUE(seen_blocks.insert(block).second) << "block " << block << " is in two windows";
      }
      blocks.clear();
      in_window = 0;
    }
    EXPECT_EQ(static_cast<int64_t>(seen_blocks.size()), last + 1);
  }
}

TEST(BlockShuffleTest, BlocksAreShuffledAndSamplesAreShuffledInsideEachWindow) {
  EpochOrders orders(BlockRules(1000, 10, 5));
  const auto order = orders.Of(0);
  std::vector<int64_t> first_window, blocks;
  for (int64_t position = 0; position < 50; ++position) {
    first_window.push_back((*order)[position]);
    blocks.push_back(first_window.back() / 10);
  }
  EXPECT_FALSE(std::is_sorted(blocks.begin(), blocks.end()));
  EXPECT_GT(*std::max_element(blocks.begin(), blocks.end()), 10) << "blocks come from everywhere";
  // The samples of a block are spread over the whole window.
  const auto first = std::find(blocks.begin(), blocks.end(), blocks.back());
  EXPECT_GT(blocks.end() - first, 10);
  std::vector<int64_t> next;
  for (int64_t position = 0; position < 50; ++position) next.push_back((*orders.Of(1))[position]);
  EXPECT_NE(next, first_window);
}

TEST(BlockShuffleTest, BlockOrderOfATrillionSamplesIsComputedOnDemand) {
  constexpr int64_t kSamples = 1'000'000'000'123;
  const auto order = EpochOrders(BlockRules(kSamples, 1024, 8)).Of(0);
  std::set<int64_t> samples, blocks;
  for (int64_t position = kSamples - 5000; position < kSamples; ++position) {
    samples.insert((*order)[position]);
    blocks.insert((*order)[position] / 1024);
  }
  EXPECT_EQ(samples.size(), 5000u);
  EXPECT_GE(*samples.begin(), 0);
  EXPECT_LT(*samples.rbegin(), kSamples);
  EXPECT_LE(blocks.size(), 16u) << "at most two windows";
}

TEST(NoShuffleTest, SamplesComeInNaturalOrder) {
  const OrderRules rules = RulesOf({{ShuffleRules::Kind::kNone}, Sharding::kGlobal, 3, 6, 50, false});
  const auto order = EpochOrders(rules).Of(4);
  for (int64_t position = 0; position < 50; ++position) EXPECT_EQ((*order)[position], position);
  const OrderRules data = RulesOf({{ShuffleRules::Kind::kNone}, Sharding::kData, 2, 4, 8, false});
  std::vector<int64_t> samples;
  for (int64_t position = 0; position < 8; ++position)
    samples.push_back((*EpochOrders(data).Of(0))[position]);
  EXPECT_THAT(samples, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7)) << "worker 0 has the even samples";
}

}  // namespace
}  // namespace tethys
