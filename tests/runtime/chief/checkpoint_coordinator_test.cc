#include "runtime/chief/checkpoint_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/chief/action_text.h"
#include "tests/runtime/chief/small_job.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = CheckpointCoordinator::State;

constexpr TaskId kWorkers[] = {{proto::WORKER, 0}, {proto::WORKER, 1}};

// Two workers save an arena (the buffer of all parameters) of 5000 elements. Opened, Done and Committed
// return whether the save has ended.
class CheckpointCoordinatorTest : public ::testing::Test {
 protected:
  CheckpointCoordinatorTest() { Make({}); }
  void Make(const proto::TrainingState& start) {
    proto::JobPlan plan = Plan("workers: 2 strategy { mirrored {} }");
    plan.add_variable()->add_shape(5000);
    saves_ = std::make_unique<CheckpointCoordinator>(plan, start);
  }
  void Begin(int64_t id, int64_t step = 7, int64_t best_step = 0) {
    proto::TrainingState state;
    state.set_step(step);
    if (best_step > 0) state.mutable_best()->set_step(best_step);
    saves_->Begin(id, state, {}, {std::begin(kWorkers), std::end(kWorkers)}, now_, actions_);
  }
  bool Opened(const absl::Status& status = absl::OkStatus()) {
    return saves_->OnOpened(status, now_, actions_);
  }
  bool Done(int worker, int64_t id, const std::string& error = "") {
    proto::SaveDone done;
    done.set_id(id);
    done.set_error(error);
    return saves_->OnSaveDone(kWorkers[worker], done, now_, actions_);
  }
  bool Committed(const absl::Status& status = absl::OkStatus()) {
    return saves_->OnCommitted(status, "step-7", now_, actions_);
  }
  // Carries out a whole save, from Begin to the commit.
  void Save(int64_t id, int64_t step, int64_t best_step) {
    Begin(id, step, best_step);
    Opened();
    for (const int worker : {0, 1}) Done(worker, id);
    Committed();
    Log();
  }
  // Returns the texts of the actions since the last call. Adds the emitted journal lines to journal_ and puts
  // the last note into note_.
  std::vector<std::string> Log() {
    for (const Action& action : actions_) {
      if (const auto* line = absl::get_if<WriteJournal>(&action)) journal_ += line->line;
      if (const auto* report = absl::get_if<Report>(&action)) note_ = report->event.note();
    }
    return TakeTexts(actions_);
  }
  proto::RunSummary Summary() const {
    proto::RunSummary summary;
    saves_->FillSummary(summary);
    return summary;
  }

  std::unique_ptr<CheckpointCoordinator> saves_;
  Nanoseconds now_ = kSecond;
  Actions actions_;
  std::string journal_, note_;
};

TEST_F(CheckpointCoordinatorTest, SaveIsOpenedThenWrittenByAllWorkersThenCommitted) {
  Begin(3);
  EXPECT_THAT(Log(), ElementsAre("open"));
  EXPECT_FALSE(Opened());
  EXPECT_EQ(saves_->state(), State::kWriting);
  EXPECT_THAT(Log(), ElementsAre("w0 save", "w1 save"));
  EXPECT_FALSE(Done(0, 3));
  EXPECT_THAT(Log(), IsEmpty());
  EXPECT_FALSE(Done(1, 3));
  EXPECT_THAT(Log(), ElementsAre("commit"));
  now_ += 2 * kSecond;
  EXPECT_TRUE(Committed());
  Log();
  EXPECT_EQ(saves_->state(), State::kIdle);
  EXPECT_EQ(journal_, "saved 7 0 0\n");
  EXPECT_EQ(note_, "saved step-7");
  EXPECT_EQ(Summary().checkpoints_written(), 1);
  EXPECT_EQ(Summary().last_checkpoint(), "step-7");
  EXPECT_EQ(Summary().timing().checkpoint_seconds(), 2);
}

TEST_F(CheckpointCoordinatorTest, PartsThatWorkersSaveBeginAtMultiplesOf1024Elements) {
  Begin(1);
  Opened();
  std::vector<std::string> parts;
  for (const Action& action : actions_) {
    if (const auto* send = absl::get_if<SendOrder>(&action)) {
      const proto::Save& save = send->order.save();
      parts.push_back(absl::StrCat(save.first(), "+", save.count()));
    }
  }
  EXPECT_THAT(parts, ElementsAre("0+3072", "3072+1936")) << "5000 elements, padded to 5008";
}

TEST_F(CheckpointCoordinatorTest, ErrorOnOpeningACheckpointEndsTheSave) {
  Begin(1);
  EXPECT_TRUE(Opened(absl::ResourceExhaustedError("disk full")));
  Log();
  EXPECT_EQ(saves_->state(), State::kIdle);
  EXPECT_TRUE(absl::IsResourceExhausted(saves_->last_status()));
  EXPECT_THAT(note_, HasSubstr("the checkpoint of step 7 was not saved (RESOURCE_EXHAUSTED: disk full); no "
                               "checkpoint was saved yet"));
}

TEST_F(CheckpointCoordinatorTest, WorkerErrorAbandonsSaveOnceAllWorkersAnswered) {
  Save(1, 7, 0);
  Begin(2, 9);
  Opened();
  Log();
  EXPECT_FALSE(Done(0, 2, "RESOURCE_EXHAUSTED: disk full"));
  EXPECT_TRUE(Done(1, 2));
  EXPECT_THAT(Log(), ElementsAre("abandon"));
  EXPECT_THAT(note_,
              HasSubstr("worker 0: RESOURCE_EXHAUSTED: disk full); the last good checkpoint is step-7"));
  EXPECT_EQ(Summary().checkpoints_written(), 1);
}

TEST_F(CheckpointCoordinatorTest, ErrorOnCommittingACheckpointEndsTheSave) {
  Begin(1);
  Opened();
  for (const int worker : {0, 1}) Done(worker, 1);
  EXPECT_TRUE(Committed(absl::DataLossError("sync failed")));
  Log();
  EXPECT_TRUE(absl::IsDataLoss(saves_->last_status()));
  EXPECT_EQ(journal_, "");
}

TEST_F(CheckpointCoordinatorTest, AnswerOfAWorkerBeforeTheSaveIsOpenHasNoEffect) {
  Begin(1);
  Log();
  for (const int worker : {0, 1}) EXPECT_FALSE(Done(worker, 1));
  EXPECT_THAT(Log(), IsEmpty());
}

TEST_F(CheckpointCoordinatorTest, RepeatedSaveAnswerOfAWorkerCountsOnce) {
  Begin(1);
  Opened();
  Log();
  for (const int worker : {0, 0, 1, 1, 0}) Done(worker, 1);
  EXPECT_THAT(Log(), ElementsAre("commit"));
}

TEST_F(CheckpointCoordinatorTest, AnswerToAnEarlierSaveHasNoEffect) {
  Save(1, 7, 0);
  Begin(2);
  Opened();
  Log();
  for (const int worker : {0, 1}) Done(worker, 1);
  EXPECT_THAT(Log(), IsEmpty());
}

TEST_F(CheckpointCoordinatorTest, SavedBestIsTheBestEpochOfTheLastSuccessfulSave) {
  proto::TrainingState start;
  start.mutable_best()->set_step(2);
  Make(start);
  EXPECT_EQ(saves_->saved_best().step(), 2);
  Save(1, 4, 4);
  Begin(2, 6, 6);
  Opened(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(saves_->saved_best().step(), 4);
}

TEST_F(CheckpointCoordinatorTest, TimeSinceSaveIgnoresFailedSaves) {
  saves_->TrainingBegins(now_);
  now_ += 3 * kSecond;
  Begin(1);
  Opened(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(saves_->SecondsSinceSave(now_), 3);
  Save(2, 7, 0);
  EXPECT_EQ(saves_->SecondsSinceSave(now_), 0);
}

}  // namespace
}  // namespace tethys
