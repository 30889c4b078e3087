// Tests how the chief passes on moving statistics: from the starting state to workers, and from workers to
// evaluations and checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/chief/job_controller_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kMirrored[] = "workers: 2 strategy { mirrored {} }";

class StatisticsTest : public JobControllerTest {
 protected:
  StatisticsTest() { statistics_.mean = {0, 1}; }

  // Reports that the worker has used the samples of these slices, one step per slice, and that it has ended
  // its run.
  void TrainTo(int worker, int64_t run, const std::vector<Slice>& slices, const std::string& statistics) {
    for (const Slice slice : slices) {
      Say(Worker(worker),
          absl::StrCat("steps { record { rank: ", worker, " step: ", slice.begin / plan_.global_batch(),
                       " sample_begin: ", slice.begin, " samples: ", slice.count(),
                       " labels: ", slice.count(), " loss_sum: 1 correct: 1 } }"));
    }
    Say(Worker(worker),
        absl::StrCat("run_done { run: ", run, " steps: ", slices.size(), " statistics: ", statistics, " }"));
  }
  // The statistics in the last order of the given kind to the task.
  std::vector<float> Sent(TaskId task, proto::ToTask::MessageCase kind) const {
    for (auto order = orders_.rbegin(); order != orders_.rend(); ++order) {
      if (order->task != task || order->order.message_case() != kind) continue;
      const auto& values = kind == proto::ToTask::kSetup ? order->order.setup().statistics()
                                                         : order->order.evaluate().statistics();
      return {values.begin(), values.end()};
    }
    ADD_FAILURE() << "no such order was sent";
    return {};
  }
  std::vector<float> SentAtSetup(int worker) const { return Sent(Worker(worker), proto::ToTask::kSetup); }
  std::vector<float> Evaluated(int worker) const { return Sent(Worker(worker), proto::ToTask::kEvaluate); }

  // Expects that the job ends with an error that names worker 1 and has this text.
  void ExpectFailure(const std::string& text) {
    Tick(0.1);
    Tick(3);
    EXPECT_EQ(culprit_, Worker(1));
    EXPECT_THAT(std::string(end_.message()), AllOf(HasSubstr("worker 1"), HasSubstr(text)));
  }
};

TEST_F(StatisticsTest, SetupOrderGivesTheMeanStatisticsToEveryWorker) {
  StartAndMakeReady(kMirrored);
  EXPECT_THAT(SentAtSetup(0), ElementsAre(0, 1));
  EXPECT_THAT(SentAtSetup(1), ElementsAre(0, 1));
}

TEST_F(StatisticsTest, SetupOrderGivesEachWorkerItsSavedStatistics) {
  statistics_ = {.mean = {2, 3}, .workers = {{1, 2}, {3, 4}}};
  StartAndMakeReady(kMirrored);
  EXPECT_THAT(SentAtSetup(0), ElementsAre(1, 2));
  EXPECT_THAT(SentAtSetup(1), ElementsAre(3, 4));
}

TEST_F(StatisticsTest, ServersGetNoStatistics) {
  StartAndMakeReady("workers: 1 strategy { parameter_server { bulk_synchronous {} } }");
  EXPECT_THAT(SentAtSetup(0), ElementsAre(0, 1));
  EXPECT_THAT(Sent(Server(), proto::ToTask::kSetup), IsEmpty());
}

TEST_F(StatisticsTest, EvaluationsAndSavesGetTheMeanStatisticsOfTheWorkers) {
  StartAndMakeReady(kMirrored);
  TrainTo(0, 1, {{0, 5}, {10, 15}}, "[1, 8]");
  TrainTo(1, 1, {{5, 10}, {15, 20}}, "[4, 2]");
  EXPECT_THAT(Evaluated(0), ElementsAre(2.5, 5));
  EXPECT_THAT(Evaluated(1), ElementsAre(2.5, 5));
  FinishWell();
  EXPECT_EQ(orders_.back().order.evaluate().split(), proto::TEST);
  EXPECT_THAT(Evaluated(0), ElementsAre(2.5, 5));
  EXPECT_THAT(Log().back(), "open");
  EXPECT_THAT(saved_statistics_.mean, ElementsAre(2.5, 5));
  EXPECT_THAT(saved_statistics_.workers, ElementsAre(ElementsAre(1, 8), ElementsAre(4, 2)));
}

TEST_F(StatisticsTest, StatisticsOfALaterSegmentReplaceThoseOfAnEarlierSegment) {
  job_epochs_ = 2;
  StartAndMakeReady(kMirrored);
  TrainTo(0, 1, {{0, 5}, {10, 15}}, "[1, 8]");
  TrainTo(1, 1, {{5, 10}, {15, 20}}, "[4, 2]");
  for (const int worker : {0, 1}) {
    Say(Worker(worker), "evaluation_done { id: 1 samples: 1 labels: 1 correct: 1 loss_sum: 0.5 }");
  }
  EXPECT_EQ(Log().back(), "w1 run");
  TrainTo(0, 2, {{20, 25}, {30, 35}}, "[3, 0.5]");
  TrainTo(1, 2, {{25, 30}, {35, 40}}, "[0, 0.25]");
  EXPECT_THAT(Evaluated(0), ElementsAre(1.5, 0.375));
}

TEST_F(StatisticsTest, StatisticsWithAWrongNumberOfElementsFailJobAndNameWorker) {
  for (const auto& [statistics, count] :
       std::vector<std::pair<std::string, int>>{{"[1, 2, 3]", 3}, {"[1]", 1}, {"[]", 0}}) {
    StartAndMakeReady(kMirrored);
    TrainTo(0, 1, {{0, 5}, {10, 15}}, "[1, 8]");
    TrainTo(1, 1, {{5, 10}, {15, 20}}, statistics);
    ExpectFailure(absl::StrCat("moving statistics of ", count, " elements, but the model has 2"));
  }
}

// There are more servers than workers, so no worker has the index of server 1.
TEST_F(StatisticsTest, StatisticsInARunDoneMessageOfAServerAreIgnored) {
  StartAndMakeReady("workers: 1 strategy { parameter_server { servers: 2 bulk_synchronous {} } }");
  Say(Server(1), "run_done { run: 1 steps: 4 statistics: [7, 8] }");
  TrainTo(0, 1, {{0, 10}, {10, 20}}, "[5, 6]");
  EXPECT_THAT(Evaluated(0), ElementsAre(5, 6));
}

TEST_F(StatisticsTest, NonFiniteStatisticsFailJobAndNameWorker) {
  for (const char* statistics : {"[1, nan]", "[inf, 1]"}) {
    StartAndMakeReady(kMirrored);
    TrainTo(0, 1, {{0, 5}, {10, 15}}, "[1, 8]");
    TrainTo(1, 1, {{5, 10}, {15, 20}}, statistics);
    ExpectFailure("the moving statistics of this worker contain a value that is not finite");
  }
}

TEST_F(StatisticsTest, StatisticsForAModelWithoutStatisticsFailTheJob) {
  statistics_ = {};
  StartAndMakeReady(kMirrored);
  TrainTo(1, 1, {{5, 10}, {15, 20}}, "[1, 2]");
  ExpectFailure("moving statistics of 2 elements, but the model has 0");
}

}  // namespace
}  // namespace tethys
