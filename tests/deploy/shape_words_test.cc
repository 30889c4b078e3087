#include "deploy/shape_words.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

JobShape Shape(const std::string& strategy, int workers, int servers = 0) {
  return {ParseStrategy(strategy), workers, servers};
}

TEST(ShapeWordsTest, NamesStrategyAndProcessesInPlainWords) {
  EXPECT_EQ(ShapeWords(Shape("local", 1)), "one worker alone");
  EXPECT_EQ(ShapeWords(Shape("mirrored", 1)), "1 mirrored worker");
  EXPECT_EQ(ShapeWords(Shape("ps_sync", 3, 2)), "3 workers in lock step with 2 parameter servers");
  EXPECT_EQ(ShapeWords(Shape("ps_stale_1", 3, 1)), "3 workers at most 1 step apart with 1 parameter server");
  EXPECT_EQ(ShapeWords(Shape("ps_async", 2, 1)), "2 asynchronous workers with 1 parameter server");
}

TEST(ShapeWordsTest, TextOmitsTheWorkerCountOfALocalJob) {
  EXPECT_EQ(ShapeText(Shape("local", 1)), "local");
  EXPECT_EQ(ShapePhrase(Shape("local", 1)), "local");
  EXPECT_EQ(ShapeText(Shape("mirrored", 4)), "mirrored, 4 workers");
  EXPECT_EQ(ShapeText(Shape("ps_stale_3", 3, 1)), "ps_stale_3, 3 workers and 1 server");
  EXPECT_EQ(ShapePhrase(Shape("ps_sync", 3, 1)), "ps_sync with 3 workers and 1 server");
  EXPECT_EQ(ShapeList(Shape("local", 1)), "local, 1 worker");
  EXPECT_EQ(ShapeList(Shape("ps_async", 3, 2)), "ps_async, 3 workers, 2 servers");
}

TEST(StrategyNotesTest, EachConsistencyIsExplainedOnce) {
  EXPECT_THAT(StrategyNotes({StrategyFamily::kLocal, ParseStrategy("ps_later_1")}), IsEmpty());
  EXPECT_THAT(StrategyNotes({StrategyFamily::kMirrored}),
              ElementsAre("Mirrored workers exchange gradients directly, in every step."));
  EXPECT_THAT(StrategyNotes({ParseStrategy("ps_stale_3"), ParseStrategy("ps_stale_5"),
                             StrategyFamily::kAsynchronous, StrategyFamily::kBulkSynchronous}),
              ElementsAre("Parameter servers keep the model; workers send them gradients and fetch "
                          "parameters, in lock step (synchronous), a few steps apart at most "
                          "(stale-synchronous) or without waiting for one another (asynchronous)."));
}

}  // namespace
}  // namespace tethys
