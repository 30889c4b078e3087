#include "ps/push_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ps/arrival_count.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

std::string Text(const std::vector<Range>& ranges) {
  return absl::StrJoin(ranges, " ", [](std::string* out, const Range& range) {
    absl::StrAppend(out, "[", range.begin, ",", range.end(), ")");
  });
}

std::string PartsIn(PushParts& parts, Range local) {
  std::vector<Range> found;
  parts.ForEachIn(local, [&](PushParts::Part& part) { found.push_back(part.local); });
  return Text(found);
}

PushParts MakeParts(const std::vector<Range>& ranges) {
  PushParts parts;
  for (const Range& range : ranges) parts.Add({.arena = range, .local = range});
  return parts;
}

TEST(PushParts, PartsThatOverlapARangeAreFound) {
  PushParts parts = MakeParts({{16, 8}, {0, 8}, {8, 4}});
  EXPECT_EQ(PartsIn(parts, {0, 24}), "[0,8) [8,12) [16,24)");
  EXPECT_EQ(PartsIn(parts, {7, 2}), "[0,8) [8,12)");
  EXPECT_EQ(PartsIn(parts, {12, 4}), "");
  EXPECT_EQ(PartsIn(parts, {24, 8}), "");
  EXPECT_EQ(parts.FindOverlap({12, 5})->local.begin, 16);
  EXPECT_EQ(parts.FindOverlap({12, 4}), nullptr);
}

TEST(PushParts, FindReturnsThePartWithExactlyThatRange) {
  const PushParts parts = MakeParts({{8, 8}});
  EXPECT_NE(parts.Find({8, 8}), nullptr);
  EXPECT_EQ(parts.Find({8, 4}), nullptr);
  EXPECT_EQ(parts.Find({9, 7}), nullptr);
}

TEST(PushParts, PartsKeepTheirOrderOfArrival) {
  PushParts parts = MakeParts({{16, 8}, {0, 8}, {8, 4}});
  std::vector<Range> order;
  for (const PushParts::Part& part : parts.in_order()) order.push_back(part.local);
  EXPECT_EQ(Text(order), "[16,24) [0,8) [8,12)");
  parts.Clear();
  EXPECT_TRUE(parts.in_order().empty());
  EXPECT_EQ(parts.Find({0, 8}), nullptr);
}

TEST(ArrivalCount, RangeIsCompleteOnceAllWorkersHaveSentIt) {
  ArrivalCount count(3, 24);
  EXPECT_EQ(Text(count.Add({0, 8})), "");
  EXPECT_EQ(Text(count.Add({0, 8})), "");
  EXPECT_EQ(Text(count.Add({8, 16})), "");
  EXPECT_EQ(Text(count.Add({0, 8})), "[0,8)");
  count.Clear();
  EXPECT_EQ(Text(count.Add({0, 8})), "");
}

TEST(ArrivalCount, OnlyTheOverlapOfPartsFromAllWorkersIsComplete) {
  ArrivalCount count(2, 24);
  EXPECT_EQ(Text(count.Add({0, 4})), "");
  EXPECT_EQ(Text(count.Add({8, 8})), "");
  EXPECT_EQ(Text(count.Add({0, 12})), "[0,4) [8,12)");
  EXPECT_EQ(Text(count.Add({12, 12})), "[12,16)");
}

// Every worker cuts its push into random parts, and the parts of all workers arrive in random order.
TEST(ArrivalCount, CompleteRangesOfRandomPartsMatchACountPerElement) {
  constexpr int64_t kSize = 60;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, RandomPurpose::kTest, 0);
    const int workers = 1 + static_cast<int>(random.NextBelow(4));
    ArrivalCount count(workers, kSize);
    std::vector<int> missing(kSize, workers);
    std::vector<int64_t> next(workers, 0);
    for (int finished = 0; finished < workers;) {
      const auto worker = random.NextBelow(static_cast<uint32_t>(workers));
      if (next[worker] == kSize) continue;
      const Range part{next[worker], 1 + random.NextBelow(static_cast<uint32_t>(kSize - next[worker]))};
      next[worker] = part.end();
      finished += part.end() == kSize ? 1 : 0;
      std::vector<int64_t> expected;
      for (int64_t i = part.begin; i < part.end(); ++i) {
        if (--missing[i] == 0) expected.push_back(i);
      }
      std::vector<int64_t> complete;
      for (const Range& range : count.Add(part)) {
        for (int64_t i = range.begin; i < range.end(); ++i) complete.push_back(i);
      }
      ASSERT_EQ(complete, expected) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tethys
