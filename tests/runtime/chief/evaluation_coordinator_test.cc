#include "runtime/chief/evaluation_coordinator.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/chief/action_text.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = EvaluationCoordinator::State;

TaskId Worker(int index) { return {proto::WORKER, index}; }

// Each evaluation, called a pass, covers the five samples of a validation split.
class EvaluationCoordinatorTest : public ::testing::Test {
 protected:
  void Begin(int64_t id, const std::vector<TaskId>& workers) {
    evaluation_.Begin(id, proto::VALIDATION, 5, {}, workers, now_, actions_);
  }
  absl::Status Done(TaskId task, int64_t id, int64_t samples, int64_t correct) {
    proto::EvaluationDone done;
    done.set_id(id);
    done.set_samples(samples);
    done.set_correct(correct);
    done.set_labels(samples);
    done.set_loss_sum(static_cast<double>(samples) / 2);
    return evaluation_.OnDone(task, done);
  }
  // Returns the samples of each evaluation order since the last call, as "[0, 3)".
  std::vector<std::string> Slices() {
    std::vector<std::string> slices;
    for (const Action& action : std::exchange(actions_, {})) {
      const proto::Evaluate& evaluate = absl::get<SendOrder>(action).order.evaluate();
      slices.push_back(absl::StrCat("[", evaluate.begin(), ", ", evaluate.end(), ")"));
    }
    return slices;
  }

  EvaluationCoordinator evaluation_{/*labels=*/1, /*classes=*/2};
  Nanoseconds now_ = kSecond;
  Actions actions_;
};

TEST_F(EvaluationCoordinatorTest, AnswersOfAllWorkersAreAddedUp) {
  EXPECT_EQ(evaluation_.state(), State::kIdle);
  Begin(1, {Worker(0), Worker(1)});
  EXPECT_THAT(Slices(), ElementsAre("[0, 3)", "[3, 5)"));
  EXPECT_TRUE(Done(Worker(0), 1, 3, 3).ok());
  EXPECT_EQ(evaluation_.state(), State::kCollecting);
  EXPECT_TRUE(Done(Worker(1), 1, 2, 1).ok());
  EXPECT_EQ(evaluation_.state(), State::kComplete);
  EXPECT_DOUBLE_EQ(evaluation_.Quality().accuracy(), 0.8);
  EXPECT_DOUBLE_EQ(evaluation_.Quality().loss(), 0.5);
  EXPECT_EQ(evaluation_.Seconds(now_ + 2 * kSecond), 2);
}

TEST_F(EvaluationCoordinatorTest, RepeatedAnswerOfAWorkerCountsOnce) {
  Begin(1, {Worker(0), Worker(1)});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Done(Worker(0), 1, 3, 3).ok());
  EXPECT_EQ(evaluation_.state(), State::kCollecting);
  EXPECT_EQ(evaluation_.Quality().samples(), 3);
}

TEST_F(EvaluationCoordinatorTest, AnswerToAnEarlierEvaluationHasNoEffect) {
  Begin(1, {Worker(0)});
  Begin(2, {Worker(0)});
  EXPECT_TRUE(Done(Worker(0), 1, 5, 5).ok());
  EXPECT_EQ(evaluation_.state(), State::kCollecting);
}

TEST_F(EvaluationCoordinatorTest, ImpossibleCountsOfSamplesAreRefused) {
  Begin(1, {Worker(0), Worker(1)});
  for (const auto& [samples, correct] : std::vector<std::pair<int, int>>{{4, 0}, {2, 0}, {3, 4}, {3, -1}}) {
    const absl::Status status = Done(Worker(0), 1, samples, correct);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("it was asked to evaluate 3 samples, but reports"));
  }
}

TEST_F(EvaluationCoordinatorTest, ImpossibleCountsOfLabelsAreRefused) {
  Begin(1, {Worker(0), Worker(1)});
  const std::vector<std::string> impossible = {"labels: 4",
                                               "labels: -1",
                                               "labels: 3 correct_top5: 4",
                                               "labels: 3 confusion: 1",
                                               "labels: 3 confusion: [1, 1, 1, -1]",
                                               "labels: 3 confusion: [4, 0, 0, 0]"};
  for (const std::string& counts : impossible) {
    proto::EvaluationDone done;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString("id: 1 samples: 3 " + counts, &done)) << counts;
    EXPECT_TRUE(absl::IsInvalidArgument(evaluation_.OnDone(Worker(0), done))) << counts;
  }
}

TEST_F(EvaluationCoordinatorTest, AnswerOfATaskThatTakesNoPartInTheEvaluationIsRefused) {
  Begin(1, {Worker(0)});
  EXPECT_TRUE(absl::IsInvalidArgument(Done(Worker(1), 1, 0, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(Done({proto::PS, 0}, 1, 5, 0)));
}

TEST_F(EvaluationCoordinatorTest, WorkerLostBeforeItsAnswerLeavesTheEvaluationIncomplete) {
  Begin(1, {Worker(0), Worker(1)});
  Slices();
  evaluation_.OnLost(Worker(1));
  EXPECT_EQ(evaluation_.state(), State::kCollecting) << "worker 0 still computes";
  EXPECT_TRUE(Done(Worker(0), 1, 3, 3).ok());
  EXPECT_EQ(evaluation_.state(), State::kIncomplete);
  Begin(2, {Worker(0)});
  EXPECT_THAT(Slices(), ElementsAre("[0, 5)"));
  EXPECT_TRUE(Done(Worker(0), 2, 5, 2).ok());
  EXPECT_DOUBLE_EQ(evaluation_.Quality().accuracy(), 0.4) << "the first pass does not count";
}

TEST_F(EvaluationCoordinatorTest, WorkerLostAfterItsAnswerLeavesTheEvaluationComplete) {
  Begin(1, {Worker(0), Worker(1)});
  EXPECT_TRUE(Done(Worker(1), 1, 2, 2).ok());
  evaluation_.OnLost(Worker(1));
  EXPECT_TRUE(Done(Worker(0), 1, 3, 3).ok());
  EXPECT_EQ(evaluation_.state(), State::kComplete);
}

TEST_F(EvaluationCoordinatorTest, AnswerOfAReplacementDoesNotCountForTheLostWorker) {
  Begin(1, {Worker(0)});
  evaluation_.OnLost(Worker(0));
  EXPECT_TRUE(Done(Worker(0), 1, 5, 5).ok());
  EXPECT_EQ(evaluation_.state(), State::kIncomplete);
}

TEST_F(EvaluationCoordinatorTest, EvaluationWithoutWorkersIsIncomplete) {
  Begin(1, {});
  EXPECT_EQ(evaluation_.state(), State::kIncomplete);
}

TEST_F(EvaluationCoordinatorTest, AnswerOfAWorkerWithAnEmptySliceIsAwaited) {
  std::vector<TaskId> workers;
  for (int i = 0; i < 6; ++i) workers.push_back(Worker(i));
  Begin(1, workers);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Done(Worker(i), 1, 1, 1).ok());
  EXPECT_EQ(evaluation_.state(), State::kCollecting);
  EXPECT_TRUE(Done(Worker(5), 1, 0, 0).ok());
  EXPECT_EQ(evaluation_.state(), State::kComplete);
}

}  // namespace
}  // namespace tethys
