#include "ps/partitioner.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

struct NamedShape {
  std::string name;
  Shape shape;
};

VariableSet Variables(const std::vector<NamedShape>& shapes) {
  VariableSet variables;
  for (const auto& [name, shape] : shapes) {
    EXPECT_TRUE(variables.Add(name, shape, "rows", InitialValue::kZeros, 1, 1).ok());
  }
  return variables;
}

proto::Partitioner Rule(const std::string& text) {
  proto::Partitioner rule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &rule)) << text;
  return rule;
}

// The number of elements in each shard of each variable, as text: "a 4+4 b 2".
std::string Cut(const VariableSet& variables, int servers, const std::string& rule = "") {
  const auto placement = PlaceShards(variables, servers, Rule(rule));
  if (!placement.ok()) return std::string(placement.status().message());
  std::vector<std::string> words;
  for (const proto::Shard& shard : placement->shard()) {
    const bool same = !words.empty() && words[words.size() - 2] == shard.variable();
    if (same) {
      absl::StrAppend(&words.back(), "+", shard.count());
    } else {
      words.push_back(shard.variable());
      words.push_back(absl::StrCat(shard.count()));
    }
  }
  return absl::StrJoin(words, " ");
}

std::string Servers(const VariableSet& variables, int count) {
  const auto placement = PlaceShards(variables, count);
  EXPECT_TRUE(placement.ok()) << placement.status();
  std::vector<int> servers;
  for (const proto::Shard& shard : placement->shard()) servers.push_back(shard.server());
  return absl::StrJoin(servers, " ");
}

TEST(MinSizePartitioner, ShardCountIsBytesOverMinimumRoundedUp) {
  // The variable has 257 KiB, the minimum is 256 KiB. The quotient is rounded up, as in TensorFlow, so there
  // are two shards, both smaller than the minimum.
  EXPECT_EQ(Cut(Variables({{"a", {257, 256}}}), 4), "a 33024+32768");
  EXPECT_EQ(Cut(Variables({{"a", {256, 256}}}), 4), "a 65536");
}

TEST(MinSizePartitioner, MaxShardsDefaultsToTheNumberOfServers) {
  const VariableSet variables = Variables({{"a", {10, 100}}});
  EXPECT_EQ(Cut(variables, 2, "min_size { min_shard_bytes: 4 }"), "a 500+500");
  EXPECT_EQ(Cut(variables, 2, "min_size { min_shard_bytes: 4 max_shards: 1 }"), "a 1000");
}

TEST(MinSizePartitioner, RowsAreNotCut) {
  EXPECT_EQ(Cut(Variables({{"a", {2, 100000}}}), 8), "a 100000+100000");
}

TEST(MinSizePartitioner, WeightsOf392KibibytesAreCutIntoTwoShards) {
  // 784 x 128 float32 are 392 KiB: ceil(392 / 256) = 2.
  const VariableSet variables =
      Variables({{"w1", {784, 128}}, {"b1", {128}}, {"w2", {128, 10}}, {"b2", {10}}});
  EXPECT_EQ(Cut(variables, 2), "w1 50176+50176 b1 128 w2 1280 b2 10");
}

TEST(Partitioner, FirstShardsHaveOneRowMoreIfRowsDoNotDivideEvenly) {
  EXPECT_EQ(Cut(Variables({{"a", {11, 2}}}), 1, "fixed { shards: 4 }"), "a 6+6+6+4");
}

TEST(FixedPartitioner, MoreShardsThanRowsAreRefusedNamingTheVariable) {
  const std::string error = Cut(Variables({{"a", {8, 2}}, {"b", {3}}}), 1, "fixed { shards: 4 }");
  EXPECT_THAT(error, HasSubstr("'b' of shape [3] has 3 rows"));
}

TEST(MaxSizePartitioner, ShardHoldsAsManyRowsAsFit) {
  // Rows have 40 bytes, so two rows fit into 100 bytes, and the 7 rows need ceil(7 / 2) = 4 shards. These
  // have 2, 2, 2 and 1 rows.
  EXPECT_EQ(Cut(Variables({{"a", {7, 10}}}), 1, "max_size { max_shard_bytes: 100 }"), "a 20+20+20+10");
}

TEST(MaxSizePartitioner, RowLargerThanTheLimitIsASeparateShard) {
  EXPECT_EQ(Cut(Variables({{"a", {3, 10}}}), 1, "max_size { max_shard_bytes: 1 }"), "a 10+10+10");
}

TEST(MaxSizePartitioner, MaxShardsOverridesTheByteLimit) {
  EXPECT_EQ(Cut(Variables({{"a", {7, 10}}}), 1, "max_size { max_shard_bytes: 1 max_shards: 2 }"), "a 40+30");
}

TEST(Partitioner, TooManyShardsAreRefusedNamingTheRule) {
  EXPECT_THAT(
      Cut(Variables({{"a", {524288, 1}}, {"b", {1}}}), 1, "max_size { max_shard_bytes: 1 }"),
      HasSubstr("more than 524288 shards (the limit) by tuning.partitioner.max_size: raise max_shard_bytes"));
}

TEST(Placement, LargestShardsArePlacedFirstOnTheLeastLoadedServer) {
  // In order of size: the shard of 9 elements goes to server 0, and the shard of 6 to server 1. The shard of
  // 5 goes to server 1 (loads: 9 and 6), and the shard of 4 to server 0 (loads: 9 and 11).
  const VariableSet variables = Variables({{"a", {5}}, {"b", {9}}, {"c", {4}}, {"d", {6}}});
  EXPECT_EQ(Servers(variables, 2), "1 0 0 1");
}

TEST(Placement, SmallNeighbouringShardsAreOnOneServer) {
  // Four large shards of 1000 elements, each followed by a scale and an offset with 3 elements in all. Small
  // neighbouring shards are placed together as a block of at most 4012 / 64 elements.
  std::vector<NamedShape> shapes;
  for (int i = 0; i < 4; ++i) {
    shapes.push_back({absl::StrCat("filters_", i), {1000}});
    shapes.push_back({absl::StrCat("scale_", i), {1}});
    shapes.push_back({absl::StrCat("offset_", i), {2}});
  }
  EXPECT_EQ(Servers(Variables(shapes), 2), "0 0 0 1 1 1 0 0 0 1 1 1");
}

TEST(Placement, ShardsOfManyLayersFormFewContiguousRangesPerServerAndEvenLoads) {
  std::vector<NamedShape> shapes;
  for (int i = 0; i < 160; ++i) {
    shapes.push_back({absl::StrCat("filters_", i), {20 + 7 * (i % 13), 500}});
    shapes.push_back({absl::StrCat("scale_", i), {20 + 7 * (i % 13)}});
  }
  const VariableSet variables = Variables(shapes);
  for (const int servers : {2, 4, 8}) {
    const auto placement = PlaceShards(variables, servers);
    ASSERT_TRUE(placement.ok());
    int64_t runs = 0, total = 0;
    std::vector<int64_t> loads(servers);
    for (int i = 0; i < placement->shard_size(); ++i) {
      const proto::Shard& shard = placement->shard(i);
      runs += i == 0 || shard.server() != placement->shard(i - 1).server();
      loads[shard.server()] += shard.count();
      total += shard.count();
    }
    EXPECT_LE(runs, 40 * servers);
    EXPECT_LE(*std::max_element(loads.begin(), loads.end()), 1.01 * total / servers);
  }
}

TEST(Placement, TiesAreBrokenByArenaOrderAndServerIndex) {
  const VariableSet variables = Variables({{"a", {4}}, {"b", {4}}, {"c", {4}}, {"d", {4}}});
  EXPECT_EQ(Servers(variables, 3), "0 1 2 0");
}

TEST(Placement, TableShowsLoadsAndImbalance) {
  const auto placement = PlaceShards(Variables({{"a", {30}}, {"b", {10}}}), 2);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(PlacementTable(*placement),
            "server  shards         bytes   share\n"
            "     0       1           120   75.0%\n"
            "     1       1            40   25.0%\n"
            "imbalance 1.500 (bytes of the fullest server / mean over the servers)\n");
}

TEST(Placement, AdjacentServersWithEqualLoadsShareATableLine) {
  const auto placement = PlaceShards(Variables({{"a", {30}}, {"b", {10}}}), 1000);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(PlacementTable(*placement),
            "server  shards         bytes   share\n"
            "     0       1           120   75.0%\n"
            "     1       1            40   25.0%\n"
            " 2-999       0             0    0.0% each\n"
            "imbalance 750.000 (bytes of the fullest server / mean over the servers)\n");
}

TEST(Placement, AllServersAfterTheFirstFifteenGroupsFormOneMoreGroup) {
  proto::Placement placement;
  placement.set_servers(40);
  for (int server = 0; server < 40; ++server) {
    proto::Shard& shard = *placement.add_shard();
    shard.set_server(server);
    shard.set_count(100 - server);
  }
  const auto groups = GroupServers(placement);
  ASSERT_EQ(groups.size(), 16);
  EXPECT_EQ(groups[14].elements, 86);
  EXPECT_FALSE(groups[14].at_most);
  EXPECT_EQ(groups[15].first, 15);
  EXPECT_EQ(groups[15].last, 39);
  EXPECT_EQ(groups[15].elements, 85);
  EXPECT_TRUE(groups[15].at_most);
}

TEST(Partitioner, SizesAndCountsOutOfRangeAreRefusedNamingTheField) {
  const VariableSet variables = Variables({{"a", {4}}});
  EXPECT_THAT(Cut(variables, -1), HasSubstr("servers is -1"));
  EXPECT_THAT(Cut(variables, 2000000000), HasSubstr("servers is 2000000000"));
  EXPECT_THAT(Cut(variables, 1, "fixed {}"), HasSubstr("fixed.shards is 0"));
  EXPECT_THAT(Cut(variables, 1, "max_size {}"), HasSubstr("max_shard_bytes is 0"));
  EXPECT_THAT(Cut(variables, 1, "min_size { max_shards: -2 }"), HasSubstr("max_shards is -2"));
}

TEST(Placement, FrozenVariablesAreOnNoServer) {
  VariableSet variables = Variables({{"a", {4, 4}}});
  ASSERT_TRUE(variables.Add("b", {8, 8}, "rows", InitialValue::kZeros, 1, 1, /*trainable=*/false).ok());
  ASSERT_TRUE(variables.Add("c", {4, 2}, "rows", InitialValue::kZeros, 1, 1).ok());
  EXPECT_EQ(Cut(variables, 2, "fixed { shards: 2 }"), "a 8+8 c 4+4");
}

}  // namespace
}  // namespace tethys
