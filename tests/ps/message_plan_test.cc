#include "ps/message_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "ps/partitioner.h"
#include "ps/shard_layout.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

struct Placed {
  int64_t begin;
  int64_t count;
  int server;
};

proto::Placement Place(int servers, const std::vector<Placed>& shards) {
  proto::Placement placement;
  placement.set_servers(servers);
  for (const auto& [begin, count, server] : shards) {
    proto::Shard& shard = *placement.add_shard();
    shard.set_variable("v");
    shard.set_begin(begin);
    shard.set_count(count);
    shard.set_server(server);
  }
  return placement;
}

// The plan as text. A message is "0:[16,19)<0": server, range, and indices of the ready ranges that the
// message waits for.
std::string Plan(const proto::Placement& placement, const std::vector<Range>& ready,
                 int64_t message_elements) {
  const auto plan = PlanMessages(placement, 1 << 20, ready, message_elements * 4);
  if (!plan.ok()) return std::string(plan.status().message());
  return absl::StrJoin(*plan, " ", [](std::string* out, const StepMessage& message) {
    absl::StrAppend(out, message.server, ":[", message.range.begin, ",", message.range.end(), ")<",
                    absl::StrJoin(message.waits_for, "+"));
  });
}

TEST(MessagePlan, AdjacentRangesAreMergedAcrossPadding) {
  // Layer 1 has weights [0, 32) and bias [32, 35), layer 2 has weights [48, 64) and bias [64, 66). Layer 2 is
  // ready first.
  const auto placement = Place(1, {{0, 32, 0}, {32, 3, 0}, {48, 16, 0}, {64, 2, 0}});
  EXPECT_EQ(Plan(placement, {{48, 18}, {0, 35}}, 1024), "0:[0,66)<0+1");
}

TEST(MessagePlan, AdjacentRangesBeyondMessageSizeAreNotMerged) {
  const auto placement = Place(1, {{0, 32, 0}, {32, 3, 0}, {48, 16, 0}, {64, 2, 0}});
  EXPECT_EQ(Plan(placement, {{48, 18}, {0, 35}}, 48), "0:[48,66)<0 0:[0,35)<1");
}

TEST(MessagePlan, RangeLargerThanAMessageIsCut) {
  EXPECT_EQ(Plan(Place(1, {{0, 40, 0}}), {{0, 40}}, 16), "0:[0,16)<0 0:[16,32)<0 0:[32,40)<0");
}

TEST(MessagePlan, ServersDoNotShareMessages) {
  const auto placement = Place(2, {{0, 16, 0}, {16, 16, 1}, {32, 16, 0}});
  EXPECT_EQ(Plan(placement, {{0, 48}}, 1024), "0:[0,16)<0 0:[32,48)<0 1:[16,32)<0");
}

TEST(MessagePlan, ServerWithoutShardsGetsNoMessage) {
  EXPECT_EQ(Plan(Place(2, {{0, 16, 1}}), {{0, 16}}, 1024), "1:[0,16)<0");
}

TEST(MessagePlan, ReadyOrderThatOmitsGradientsIsRefused) {
  EXPECT_THAT(Plan(Place(1, {{0, 16, 0}, {16, 8, 0}}), {{0, 20}}, 1024), HasSubstr("4 of the 8 gradients"));
}

TEST(ShardLayout, ContiguousRunsOfShardsKeepTheArenasLayoutAndAreAligned) {
  const auto placement = Place(2, {{0, 10, 0}, {16, 4, 0}, {20, 4, 1}, {24, 7, 0}});
  const auto layout = ShardLayout::Create(placement, 0, 64);
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->runs().size(), 2);
  EXPECT_EQ(layout->runs()[0].arena, (Range{0, 20}));
  EXPECT_EQ(layout->runs()[1].arena, (Range{24, 7}));
  EXPECT_EQ(layout->runs()[1].local_begin, 32);
  EXPECT_EQ(layout->shards()[1].local, (Range{16, 4}));
  EXPECT_EQ(layout->element_count(), 21);
  EXPECT_EQ(layout->local_size(), 39);
}

TEST(ShardLayout, ContiguousRunEndsBeforeElementsOfAnotherServer) {
  // A bias of six elements on three servers, and another variable at the next multiple of 16.
  const auto placement = Place(3, {{0, 2, 0}, {2, 2, 1}, {4, 2, 2}, {16, 20, 0}});
  const ShardLayout layout = ShardLayout::Create(placement, 0, 36).value();
  ASSERT_EQ(layout.runs().size(), 2u);
  EXPECT_EQ(layout.runs()[0].arena, (Range{0, 2}));
  EXPECT_EQ(layout.runs()[1].arena, (Range{16, 20}));
  EXPECT_EQ(Plan(placement, {{0, 36}}, 1024), "0:[0,2)<0 0:[16,36)<0 1:[2,4)<0 2:[4,6)<0");
}

TEST(MessagePlan, EveryElementIsInOneMessageOfItsServer) {
  for (uint64_t key = 0; key < 200; ++key) {
    RandomStream random(5, RandomPurpose::kTest, key);
    const auto below = [&](int64_t limit) { return static_cast<int64_t>(random.NextBelow(limit)); };
    VariableSet variables;
    std::vector<Range> ready;
    const int64_t count = 1 + below(12);
    for (int64_t i = 0; i < count; ++i) {
      const Shape shape = {4 + below(20), 1 + below(4)};
      ASSERT_TRUE(variables.Add(absl::StrCat("v", i), shape, "a,b", InitialValue::kZeros, 1, 1).ok());
      ready.insert(ready.begin(), variables.variables().back().range);
    }
    const int servers = static_cast<int>(1 + below(4));
    proto::Partitioner rule;
    rule.mutable_fixed()->set_shards(1 + below(4));
    const proto::Placement placement = PlaceShards(variables, servers, rule).value();
    std::vector<int> server_of(variables.arena_size(), -1), messages(variables.arena_size());
    for (const proto::Shard& shard : placement.shard()) {
      std::fill_n(server_of.begin() + shard.begin(), shard.count(), shard.server());
    }
    const std::vector<StepMessage> plan =
        PlanMessages(placement, variables.arena_size(), ready, 4 * (16 + below(200))).value();
    for (const StepMessage& message : plan) {
      for (int64_t i = message.range.begin; i < message.range.end(); ++i) {
        EXPECT_TRUE(server_of[i] == -1 || server_of[i] == message.server) << key << ": element " << i;
        ++messages[i];
      }
    }
    for (int64_t i = 0; i < variables.arena_size(); ++i) {
      EXPECT_TRUE(server_of[i] == -1 || messages[i] == 1) << key << ": element " << i;
    }
  }
}

TEST(ShardLayout, ElementsInARangeAreCountedWithoutPadding) {
  const auto layout = ShardLayout::Create(Place(2, {{0, 10, 0}, {16, 4, 0}, {20, 4, 1}, {32, 8, 0}}), 0, 64);
  ASSERT_TRUE(layout.ok());
  for (int64_t begin = 0; begin <= layout->local_size(); ++begin) {
    for (int64_t end = begin; end <= layout->local_size(); ++end) {
      int64_t expected = 0;
      for (const auto& shard : layout->shards()) {
        expected += Intersection(shard.local, {begin, end - begin}).count;
      }
      ASSERT_EQ(layout->ElementsIn({begin, end - begin}), expected) << begin << " " << end;
    }
  }
}

TEST(ShardLayout, RangeWithinOneRunIsMappedAndOtherRangesAreRefused) {
  const auto placement = Place(2, {{0, 10, 0}, {16, 4, 0}, {20, 4, 1}, {24, 7, 0}});
  const auto layout = ShardLayout::Create(placement, 0, 64);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(*layout->ToLocal(25, 3), (Range{33, 3}));
  EXPECT_FALSE(layout->ToLocal(0, 0).ok());
  EXPECT_FALSE(layout->ToLocal(0, 21).ok()) << "reaches into server 1's shard";
  EXPECT_FALSE(layout->ToLocal(20, 4).ok()) << "is server 1's";
  EXPECT_FALSE(layout->ToLocal(30, UINT64_MAX).ok());
  EXPECT_FALSE(layout->ToLocal(UINT64_MAX, 1).ok());
}

TEST(ShardLayout, ContradictoryPlacementsAreRefused) {
  EXPECT_FALSE(ShardLayout::Create(Place(1, {{0, 10, 0}, {8, 4, 0}}), 0, 64).ok()) << "overlap";
  EXPECT_FALSE(ShardLayout::Create(Place(1, {{0, 65, 0}}), 0, 64).ok()) << "beyond the arena";
  EXPECT_FALSE(ShardLayout::Create(Place(1, {{INT64_MAX, 2, 0}}), 0, 64).ok()) << "overflow";
  EXPECT_FALSE(ShardLayout::Create(Place(1, {{0, 4, 1}}), 0, 64).ok()) << "no such server";
  EXPECT_FALSE(ShardLayout::Create(Place(1, {{0, 4, 0}}), 1, 64).ok()) << "no such server";
}

}  // namespace
}  // namespace tethys
