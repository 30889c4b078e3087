#include <gmock/gmock.h>

#include "tests/runtime/chief/job_controller_fixture.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An epoch has six steps of ten samples.
class JobControllerInterruptTest : public JobControllerTest {
 protected:
  JobControllerInterruptTest() { train_samples_ = 60; }
  void Pausing(int worker, int64_t steps) {
    Say(Worker(worker), absl::StrCat("pausing { run: 1 steps: ", steps, " }"));
  }
  // Reports the save as opened, written and committed; then the workers leave.
  void SaveAndEnd() {
    SaveOpened(absl::OkStatus());
    for (int i = 0; i < plan_.job().workers(); ++i) Say(Worker(i), "save_done { id: 1 }");
    SaveCommitted(absl::OkStatus());
    for (int i = 0; i < plan_.job().workers(); ++i) Vanish(Worker(i));
  }
};

TEST_F(JobControllerInterruptTest, InterruptInLockStep_EndsTheSegmentAfterTheStepOfTheFurthestWorker) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  Log();
  Interrupt();
  EXPECT_THAT(Log(), ElementsAre("w0 pause", "w1 pause"));
  Pausing(0, 1);
  EXPECT_THAT(Log(), IsEmpty());
  Pausing(1, 2);
  EXPECT_THAT(Log(), ElementsAre("w0 cut", "w1 cut"));
  EXPECT_EQ(orders_.back().order.cut().steps(), 2);
  Train(0, 1, {{0, 5}, {10, 15}});
  Train(1, 1, {{5, 10}, {15, 20}});
  EXPECT_THAT(Log(), ElementsAre("open"));
  SaveAndEnd();
  EXPECT_TRUE(absl::IsCancelled(end_)) << end_;
  EXPECT_THAT(journal_, HasSubstr("saved 2 0 20\n"));
}

TEST_F(JobControllerInterruptTest, RunDoneMessageAfterAnInterrupt_EndsTheEpochAsWithoutInterrupt) {
  StartAndMakeReady("workers: 1 strategy { local {} }");
  Interrupt();
  Log();
  Train(0, 1, {{0, 10}, {10, 20}, {20, 30}, {30, 40}, {40, 50}, {50, 60}});
  EXPECT_THAT(Log(), ElementsAre("w0 evaluate")) << "the epoch has ended as without an interrupt";
  Say(Worker(0), "evaluation_done { id: 1 samples: 2 labels: 2 correct: 1 }");
  EXPECT_THAT(Log(), ElementsAre("open"));
}

TEST_F(JobControllerInterruptTest, AfterInterrupt_WorkersOfAJobWithLeasesGetNoMoreBatches) {
  StartAndMakeReady("workers: 2 strategy { parameter_server { asynchronous {} } }");
  Log();
  Interrupt();
  EXPECT_THAT(Log(), IsEmpty());
  Say(Worker(0), "lease_request { batches: 4 }");
  EXPECT_TRUE(orders_.back().order.lease().last());
  EXPECT_EQ(orders_.back().order.lease().range_size(), 0);
}

TEST_F(JobControllerInterruptTest, InterruptBeforeTraining_StopsJobAtOnce) {
  Start("workers: 1 strategy { local {} }");
  Say(Worker(0), "join {}");
  Log();
  Interrupt();
  EXPECT_THAT(Log(), ElementsAre("w0 stop"));
  Vanish(Worker(0));
  EXPECT_TRUE(absl::IsCancelled(end_)) << end_;
}

TEST_F(JobControllerInterruptTest, InterruptDuringSave_CausesNoSecondSave) {
  StartAndMakeReady("workers: 1 strategy { local {} } checkpoint { every_steps: 1 }");
  Train(0, 1, {{0, 10}});
  Interrupt();
  Log();
  SaveAndEnd();
  EXPECT_THAT(Log(), ElementsAre("w0 save", "commit", "w0 stop", "end CANCELLED"));
}

TEST_F(JobControllerInterruptTest, FailedSaveAfterInterrupt_StillEndsJob) {
  StartAndMakeReady("workers: 1 strategy { local {} }");
  Interrupt();
  Pausing(0, 1);
  Train(0, 1, {{0, 10}});
  SaveOpened(absl::ResourceExhaustedError("disk full"));
  Vanish(Worker(0));
  EXPECT_TRUE(absl::IsCancelled(end_)) << end_;
  EXPECT_THAT(std::string(end_.message()), HasSubstr("disk full"));
}

TEST_F(JobControllerInterruptTest, PauseReportedBeyondTheEndOfTheSegment_EndsTheJobWithAnError) {
  StartAndMakeReady("workers: 1 strategy { local {} }");
  Interrupt();
  Pausing(0, 7);
  Tick(0.1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()),
              HasSubstr("this worker pauses after 7 steps, but the segment has only 6"));
}

}  // namespace
}  // namespace tethys
