// Tests that a state from a file cannot break the controller: a state in which one number or list was changed
// is refused, or gives a controller that handles further events.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/chief/job_controller_fixture.h"
#include "tests/testing/message_changes.h"

namespace tethys {
namespace {

class ChiefStateTest : public JobControllerTest {
 protected:
  // Passes one event of each kind to the controller, twice.
  void GoOn(JobController& controller) {
    Actions actions;
    Nanoseconds now = now_;
    for (int round = 0; round < 2; ++round) {
      for (const auto& [text, answer] : messages_) {
        for (const TaskId task : {Worker(0), Worker(1), Server(), Server(1)}) {
          if (task.role == proto::PS && task.index >= plan_.placement().servers()) continue;
          for (const uint32_t incarnation : {1u, 2u})
            controller.OnMessage(task, incarnation, answer, now, actions);
        }
      }
      now += kSecond / 4;
      controller.OnTick(now, actions);
      if (round == 0) (void)controller.Admit(Worker(1), 2, now);
      controller.SaveOpened(absl::OkStatus(), now, actions);
      controller.SaveCommitted(absl::OkStatus(), "step-2", now, actions);
      controller.OnInterrupt(now, actions);
    }
    controller.OnGone(Worker(1), 1, now, actions);
    controller.OnTick(now + 100 * kSecond, actions);
    proto::RunSummary summary;
    controller.FillSummary(now, summary);
    proto::ChiefState state;
    controller.Save(state);
  }
  // Tries to restore a controller from each changed version of the state.
  void RestoreChanged() {
    proto::ChiefState state = controller_->State();
    int refused = 0, restored = 0;
    testing::MessageChanges([&] {
      const auto controller = JobController::Restore(plan_, state);
      (controller.ok() ? restored : refused) += 1;
      if (controller.ok()) return GoOn(**controller);
      EXPECT_TRUE(absl::IsInvalidArgument(controller.status())) << controller.status();
    }).Of(state);
    EXPECT_GT(refused, 20);
    EXPECT_GT(restored, 20);
    EXPECT_EQ(state.SerializeAsString(), controller_->State().SerializeAsString());
  }

  void SetUp() override {
    for (const char* text :
         {"join {}", "ready {}", "heartbeat { step: 3 computing: true }", "lease_request { batches: 2 }",
          "steps { record { samples: 5 labels: 5 correct: 1 } record { sample_begin: 10 samples: 10 } }",
          "applied { push { worker: 1 sample_begin: 5 sample_count: 5 version: 2 } }",
          "run_done { run: 1 steps: 2 }", "evaluation_done { id: 1 samples: 1 labels: 1 }",
          "save_done { id: 1 }", "save_done { id: 2 }", "fenced { worker: 1 incarnation: 2 }",
          "fenced { worker: 1 incarnation: 2 takes_part: true }", "pausing { run: 1 steps: 1 }",
          "formed { generation: 1 }", "halted { generation: 1 applied: 1 }", "formed { generation: 2 }",
          "halted { generation: 2 }"}) {
      proto::FromTask message;
      ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
      messages_.emplace_back(text, message);
    }
  }

  std::vector<std::pair<std::string, proto::FromTask>> messages_;
};

TEST_F(ChiefStateTest, CorruptedStateBeforeAllTasksJoined_IsRefusedOrStillUsable) {
  Start("workers: 2 strategy { mirrored {} }");
  RestoreChanged();
}

TEST_F(ChiefStateTest, CorruptedStateOfAPausingSegment_IsRefusedOrStillUsable) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  Say(Worker(0), "steps { record { samples: 5 labels: 5 correct: 1 } }");
  Interrupt();
  Say(Worker(0), "pausing { run: 1 steps: 1 }");
  RestoreChanged();
}

TEST_F(ChiefStateTest, CorruptedStateOfLeasesAfterAWorkerLoss_IsRefusedOrStillUsable) {
  for (const char* consistency : {"asynchronous {}", "stale_synchronous { bound: 1 }"}) {
    StartAndMakeReady(
        absl::StrCat("workers: 2 max_restarts: 1 strategy { parameter_server { ", consistency, " } }"));
    Say(Worker(0), "steps { record { samples: 5 labels: 5 correct: 1 } }");
    Vanish(Worker(1));
    RestoreChanged();
  }
}

TEST_F(ChiefStateTest, CorruptedStateOfAnEvaluation_IsRefusedOrStillUsable) {
  statistics_.mean = {0, 1};
  StartAndMakeReady("workers: 2 strategy { parameter_server { bulk_synchronous {} } }");
  for (int worker = 0; worker < 2; ++worker) {
    for (int begin : {0, 10}) {
      Say(Worker(worker),
          absl::StrCat("steps { record { sample_begin: ", begin + 5 * worker, " samples: 5 } }"));
    }
    Say(Worker(worker), "run_done { run: 1 steps: 2 statistics: [1, 2] }");
  }
  Say(Worker(0), "evaluation_done { id: 1 samples: 1 labels: 1 correct: 1 }");
  RestoreChanged();
}

TEST_F(ChiefStateTest, CorruptedStateOfASave_IsRefusedOrStillUsable) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  Train(0, 1, {{0, 5}, {10, 15}});
  Train(1, 1, {{5, 10}, {15, 20}});
  FinishWell();
  SaveOpened(absl::OkStatus());
  Say(Worker(0), "save_done { id: 3 }");
  RestoreChanged();
}

TEST_F(ChiefStateTest, StateOfAnotherJobIsRefused) {
  StartAndMakeReady("workers: 2 strategy { mirrored {} }");
  const proto::ChiefState state = controller_->State();
  for (const char* other : {"workers: 3 strategy { mirrored {} }", "workers: 1 strategy { local {} }",
                            "workers: 2 strategy { parameter_server { asynchronous {} } }"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(JobController::Restore(Plan(other), state).status())) << other;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(JobController::Restore(plan_, {}).status())) << "an empty message";
}

}  // namespace
}  // namespace tethys
