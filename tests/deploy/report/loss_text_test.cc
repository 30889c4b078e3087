#include "deploy/report/loss_text.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

proto::RunSummary Summary(const std::string& text) {
  proto::RunSummary summary;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &summary));
  return summary;
}

TEST(LossText, RunThatLostNoWorkersHasNoText) {
  EXPECT_EQ(LossText({}), "");
  EXPECT_THAT(LossLines({}), IsEmpty());
}

TEST(LossText, LostWorkersAndNewGroupsOfAMirroredRun_AreToldInOrderOfTime) {
  const proto::RunSummary summary = Summary(R"(
    worker_loss { worker: 1 host: "slave2" reason: "its session ended" seconds: 2 replaced_seconds: 1.5 }
    worker_loss { worker: 0 reason: "it was silent for 10 s" seconds: 20 }
    group_change { seconds: 2.5 step: 120 worker: [ 0, 2 ] stall_seconds: 0.25 steps_again: 1 unrecorded_samples: 32
                   cause: "lost worker 1" }
    group_change { seconds: 3.5 step: 150 worker: [ 0, 1, 2 ] stall_seconds: 0.25 cause: "a replacement joined" }
    group_change { seconds: 21 step: 400 worker: 2 stall_seconds: 0.5 steps_again: 2 cause: "lost worker 0" }
  )");
  EXPECT_EQ(LossText(summary),
            "2 workers were lost; training stood still for 1 s in all, and 3 steps were repeated");
  EXPECT_THAT(
      LossLines(summary),
      ElementsAre(
          "after 2 s worker 1 on slave2 was lost: its session ended; a replacement took part "
          "1.5 s later",
          "after 2.5 s 2 workers went on from step 120 (lost worker 1), after training had stood still for "
          "250 ms; 1 step was repeated; training loss and accuracy omit 32 samples, whose records "
          "were lost with a worker",
          "after 3.5 s 3 workers went on from step 150 (a replacement joined), after training had stood "
          "still for "
          "250 ms",
          "after 20 s worker 0 was lost: it was silent for 10 s",
          "after 21 s 1 worker went on from step 400 (lost worker 0), after training had stood still for "
          "500 ms; 2 steps were repeated"));
}

TEST(LossText, LostServersThatWereRestoredFromTheirCopiesAreReported) {
  proto::RunSummary summary = Summary(R"(
    server_loss { server: 1 host: "slave2" reason: "its session ended" seconds: 2 replaced_seconds: 0.5 }
    group_change { seconds: 2.5 step: 120 worker: [ 0, 1 ] stall_seconds: 0.25 cause: "lost ps 1" })");
  EXPECT_EQ(LossText(summary),
            "1 server was lost and restored from its copy; training stood still for 250 ms in all");
  EXPECT_THAT(LossLines(summary),
              ElementsAre("after 2 s ps 1 on slave2 was lost: its session ended; a replacement took part "
                          "500 ms later",
                          "after 2.5 s 2 workers went on from step 120 (lost ps 1), after training had stood "
                          "still for 250 ms"));
  summary.add_server_loss();
  summary.add_worker_loss();
  EXPECT_EQ(LossText(summary),
            "1 worker was lost and 2 servers were lost and restored from their copies; training stood still "
            "for 250 ms in all");
}

TEST(LossText, AttemptsBeforeTheLastTellWhatTheyOutlived) {
  EXPECT_EQ(AttemptsText(Summary("attempt { lost_workers: 1 }")), "");
  EXPECT_EQ(AttemptsText(Summary("attempt { steps_again: 3 } attempt { lost_workers: 1 }")),
            "over 2 attempts, which repeated 3 steps");
  EXPECT_EQ(AttemptsText(Summary(
                R"(attempt { lost_workers: 1 lost_chiefs: 1 } attempt { lost_workers: 1 lost_servers: 3 }
                                    attempt { lost_workers: 1 })")),
            "over 3 attempts; the attempts before the last outlived 2 lost workers, 3 lost servers and 1 "
            "lost chief");
}

TEST(LossText, RunIsDisturbedByLossesAndByFurtherAttempts) {
  EXPECT_EQ(DisturbanceText(Summary("attempt {}")), "");
  EXPECT_EQ(DisturbanceText(Summary("attempt {} worker_loss {}")), "1 worker was lost");
  EXPECT_EQ(DisturbanceText(Summary("attempt { steps_again: 3 } attempt {} worker_loss {}")),
            "1 worker was lost; trained over 2 attempts, which repeated 3 steps");
}

TEST(LossText, WorkerGroupFormedAgainWithoutALostWorker_IsReported) {
  const proto::RunSummary summary = Summary(R"(
    group_change { seconds: 3 step: 7 worker: [ 0, 1 ] stall_seconds: 0.5 cause: "worker 1: the exchange failed" })");
  EXPECT_EQ(LossText(summary),
            "the workers formed a new group 1 time; training stood still for 500 ms in all");
  EXPECT_THAT(
      LossLines(summary),
      ElementsAre("after 3 s 2 workers went on from step 7 (worker 1: the exchange failed), after training "
                  "had stood still for 500 ms"));
}

TEST(LossText, LostChiefsAreCountedAndTold) {
  proto::RunSummary summary = Summary("chief_loss { seconds: 12 absent_seconds: 0.25 }");
  EXPECT_EQ(LossText(summary), "the chief was lost and replaced");
  EXPECT_THAT(LossLines(summary),
              ElementsAre("after 12 s another chief took over; for 250 ms there was no chief"));
  summary.add_chief_loss();
  summary.add_worker_loss();
  EXPECT_EQ(LossText(summary), "1 worker was lost; the chief was lost and replaced 2 times");
}

TEST(LossText, WorkerLossOfAnAsynchronousRun_MentionsNoStandstill) {
  EXPECT_EQ(LossText(Summary(R"(worker_loss { worker: 1 reason: "it broke" seconds: 2 })")),
            "1 worker was lost");
}

}  // namespace
}  // namespace tethys
