#include "runtime/shape/job_shape.h"

#include <google/protobuf/text_format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

proto::Job JobOf(const std::string& text) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

TEST(JobShapeTest, ReadsStrategyAndNumbersOfProcessesFromAJob) {
  EXPECT_EQ(ShapeOf(JobOf("workers: 1")), (JobShape{StrategyFamily::kLocal, 1, 0}));
  EXPECT_EQ(ShapeOf(JobOf("workers: 1 strategy { local {} }")), (JobShape{StrategyFamily::kLocal, 1, 0}));
  EXPECT_EQ(ShapeOf(JobOf("workers: 3 strategy { mirrored {} }")),
            (JobShape{StrategyFamily::kMirrored, 3, 0}));
  EXPECT_EQ(ShapeOf(JobOf("workers: 3 strategy { parameter_server { servers: 2 } }")),
            (JobShape{StrategyFamily::kBulkSynchronous, 3, 2}));
  EXPECT_EQ(ShapeOf(JobOf("workers: 3 strategy { parameter_server { servers: 2 bulk_synchronous {} } }")),
            (JobShape{StrategyFamily::kBulkSynchronous, 3, 2}));
  EXPECT_EQ(ShapeOf(JobOf("workers: 3 strategy { parameter_server { servers: 1 asynchronous {} } }")),
            (JobShape{StrategyFamily::kAsynchronous, 3, 1}));
  EXPECT_EQ(ShapeOf(JobOf("workers: 3 strategy { parameter_server { servers: 1 "
                          "stale_synchronous { bound: 4 } } }")),
            (JobShape{{StrategyFamily::kStaleSynchronous, 4}, 3, 1}));
}

TEST(JobShapeTest, EveryNameOfAStrategyParsesToThatStrategy) {
  for (const JobStrategy& strategy :
       {JobStrategy(StrategyFamily::kLocal), JobStrategy(StrategyFamily::kMirrored),
        JobStrategy(StrategyFamily::kBulkSynchronous), JobStrategy(StrategyFamily::kAsynchronous),
        JobStrategy(StrategyFamily::kStaleSynchronous), JobStrategy(StrategyFamily::kStaleSynchronous, 0),
        JobStrategy(StrategyFamily::kStaleSynchronous, 12)}) {
    EXPECT_EQ(ParseStrategy(StrategyName(strategy)), strategy) << StrategyName(strategy);
  }
}

// Files of earlier versions contain these names, so they must still be understood.
TEST(JobShapeTest, NamesOfStrategiesNeverChange) {
  EXPECT_EQ(StrategyName(JobStrategy(StrategyFamily::kLocal)), "local");
  EXPECT_EQ(StrategyName(JobStrategy(StrategyFamily::kMirrored)), "mirrored");
  EXPECT_EQ(StrategyName(JobStrategy(StrategyFamily::kBulkSynchronous)), "ps_sync");
  EXPECT_EQ(StrategyName(JobStrategy(StrategyFamily::kStaleSynchronous)), "ps_stale");
  EXPECT_EQ(StrategyName(JobStrategy(StrategyFamily::kStaleSynchronous, 3)), "ps_stale_3");
  EXPECT_EQ(StrategyName(JobStrategy(StrategyFamily::kAsynchronous)), "ps_async");
}

TEST(JobShapeTest, TextThatIsNoNameOfAStrategyParsesToUnknown) {
  for (const char* text :
       {"", "Local", "local ", "mirrored_3", "ps", "ps_sync_1", "ps_stale_", "ps_stale_x", "ps_stale_-1",
        "ps_stale_03", "ps_stale_ 3", "ps_stale_99999999999", "ps_stale_3_15", "unknown"}) {
    EXPECT_EQ(ParseStrategy(text).family, StrategyFamily::kUnknown) << text;
  }
}

TEST(JobShapeTest, StrategiesOfOneFamilyWithDifferentStalenessBoundsAreUnequal) {
  const JobStrategy three = ParseStrategy("ps_stale_3"), four = ParseStrategy("ps_stale_4");
  EXPECT_EQ(three.family, four.family);
  EXPECT_NE(three, four);
}

TEST(JobShapeTest, OnlyAsynchronousAndStaleSynchronousServersCanUseThePushMean) {
  const auto servers = [](const std::string& consistency) {
    return JobOf("strategy { parameter_server { " + consistency + " } }").strategy().parameter_server();
  };
  EXPECT_EQ(GradientScale(servers("")), absl::nullopt);
  EXPECT_EQ(GradientScale(servers("bulk_synchronous {}")), absl::nullopt);
  EXPECT_FALSE(UsesPushMean(servers("bulk_synchronous {}")));
  EXPECT_TRUE(UsesPushMean(servers("asynchronous { gradient_scale: PUSH_MEAN }")));
  EXPECT_FALSE(UsesPushMean(servers("asynchronous { gradient_scale: GLOBAL_MEAN }")));
  EXPECT_TRUE(UsesPushMean(servers("stale_synchronous { gradient_scale: PUSH_MEAN }")));
  EXPECT_FALSE(UsesPushMean(servers("stale_synchronous { gradient_scale: GLOBAL_MEAN }")));
}

}  // namespace
}  // namespace tethys
