#include "runtime/chief/logged_controller.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/chief/chief_input.h"
#include "tests/runtime/chief/action_text.h"
#include "tests/runtime/chief/small_job.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/message_changes.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

// A job of two mirrored workers, whose controller keeps a log.
class LoggedControllerTest : public ::testing::Test {
 protected:
  LoggedControllerTest() {
    controller_ = std::make_unique<LoggedController>(
        std::make_unique<JobController>(plan_, proto::TrainingState(), false, StatisticsBook(2, {}),
                                        clock_.Now()),
        "h0", clock_);
    controller_->Log(*ChiefLog::Create(path_));
    for (int i = 0; i < 2; ++i) Give(AdmitInput(Worker(i), 1));
    for (int i = 0; i < 2; ++i) Say(i, "join {}");
  }
  static TaskId Worker(int index) { return {proto::WORKER, index}; }
  std::string Give(proto::ChiefRecord record) { return Give(*controller_, std::move(record)); }
  // The actions that follow from the input.
  static std::string Give(LoggedController& controller, proto::ChiefRecord record) {
    Actions actions;
    EXPECT_TRUE(controller.Give(record, actions).ok());
    return FullText(actions);
  }
  static proto::ChiefRecord Message(int worker, const std::string& text) {
    proto::FromTask message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    return MessageInput(Worker(worker), 1, message);
  }
  std::string Say(int worker, const std::string& text) { return Give(Message(worker, text)); }
  void Train() {
    for (int i = 0; i < 2; ++i) Say(i, "ready {}");
    for (int i = 0; i < 2; ++i) Say(i, "formed { generation: 1 }");
  }
  // Makes the log long by an input without effect.
  void MakeLogLong() {
    proto::ChiefRecord record;
    record.mutable_samples()->add_sample()->set_boot_id(std::string(ChiefLog::kLongBytes, 'x'));
    Give(std::move(record));
  }
  static std::string Sessions(LoggedController& controller) {
    std::string text;
    for (int i = 0; i < 2; ++i) {
      for (const uint32_t incarnation : {1u, 2u}) {
        const auto messages = controller.MessagesOf(Worker(i), incarnation);
        absl::StrAppend(&text, messages.ok() ? absl::StrCat(*messages) : "none", " ");
      }
    }
    return text;
  }
  // The records that a process would read that takes over.
  std::vector<proto::ChiefRecord> ReadLog() {
    controller_->Log(nullptr);
    std::vector<proto::ChiefRecord> records;
    EXPECT_TRUE(ChiefLog::Continue(path_, records).ok());
    return records;
  }
  auto Restore(const proto::LoggedControllerState& state) {
    return LoggedController::Restore(plan_, state, "h0", clock_);
  }

  const testing::TempDirectory dir_;
  const std::string path_ = dir_.path() + "/chief.log";
  const proto::JobPlan plan_ = Plan("workers: 2 strategy { mirrored {} }");
  FakeClock clock_;
  std::unique_ptr<LoggedController> controller_;
};

TEST_F(LoggedControllerTest, SnapshotIsDue_OnceTheJobTrainsAndTheLogIsLong) {
  MakeLogLong();
  EXPECT_FALSE(controller_->SnapshotDue()) << "the job does not train";
  Train();
  EXPECT_TRUE(controller_->SnapshotDue());
  proto::ChiefRecord record;
  ASSERT_TRUE(controller_->BeginNewLog(record).ok());
  EXPECT_FALSE(controller_->SnapshotDue());
}

TEST_F(LoggedControllerTest, SnapshotIsNotDue_WhileTheJobEnds) {
  Train();
  MakeLogLong();
  Say(0, "failure { message: \"broken\" status_code: 3 }");
  clock_.Advance(kSecond);
  proto::ChiefRecord tick;
  tick.set_tick(true);
  Give(tick);
  EXPECT_FALSE(controller_->SnapshotDue());
}

TEST_F(LoggedControllerTest, RestoredController_ContinuesAsTheOriginalWould) {
  Train();
  Say(0, "heartbeat { step: 1 computing: true }");
  proto::ChiefRecord first;
  first.set_now_ns(7);
  ASSERT_TRUE(controller_->BeginNewLog(first).ok());
  const std::string actions = Say(1, "steps { record { rank: 1 sample_begin: 5 samples: 5 labels: 5 } }") +
                              Say(0, "lease_request { batches: 1 }") + Give(GoneInput(Worker(1), 1));
  const std::string sessions = Sessions(*controller_);
  const std::vector<proto::ChiefRecord> records = ReadLog();
  ASSERT_EQ(records.size(), 4);
  EXPECT_EQ(records[0].now_ns(), 7);
  const auto restored = Restore(records[0].begin().snapshot().controller());
  ASSERT_TRUE(restored.ok()) << restored.status();
  std::string repeated;
  for (const proto::ChiefRecord& record : records) {
    Actions again;
    (*restored)->Repeat(record, again);
    repeated += FullText(again);
  }
  EXPECT_EQ(repeated, actions);
  EXPECT_EQ(Sessions(**restored), sessions);
  EXPECT_EQ(sessions, "5 none none none ");
}

TEST_F(LoggedControllerTest, DamagedStateIsRefusedOrStillUsable) {
  Train();
  Give(GoneInput(Worker(1), 1));
  proto::ChiefRecord first;
  ASSERT_TRUE(controller_->BeginNewLog(first).ok());
  proto::LoggedControllerState& state = *first.mutable_begin()->mutable_snapshot()->mutable_controller();
  ASSERT_EQ(state.session_size(), 2);
  state.clear_controller();
  int refused = 0;
  proto::LoggedControllerState whole;
  controller_->Read([&](const JobController& controller) { controller.Save(*whole.mutable_controller()); });
  testing::MessageChanges([&] {
    proto::LoggedControllerState damaged = whole;
    *damaged.mutable_session() = state.session();
    const auto restored = Restore(damaged);
    refused += restored.ok() ? 0 : 1;
    if (restored.ok()) Give(**restored, Message(0, "heartbeat {}"));
  }).Of(state);
  EXPECT_GE(refused, 3);
}

}  // namespace
}  // namespace tethys
