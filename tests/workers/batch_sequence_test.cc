#include "workers/batch_sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/workers/scripted_session.h"

namespace tethys {
namespace {

proto::Run Positions(int64_t begin, int64_t end) {
  proto::Run run;
  run.set_number(1);
  run.set_begin(begin);
  run.set_end(end);
  return run;
}

TEST(LockStepSequenceTest, WorkersTogetherCoverTheSegmentStepByStep) {
  constexpr int kWorld = 5;
  std::vector<std::unique_ptr<BatchSequence>> workers;
  for (int rank = 0; rank < kWorld; ++rank)
    workers.push_back(CreateLockStepSequence(Positions(100, 1000), 128, rank, kWorld));
  int64_t at = 100;
  int steps = 0;
  while (true) {
    int64_t global = 0, begin = at;
    bool any = false;
    for (const auto& worker : workers) {
      const auto batch = worker->Next(true);
      ASSERT_TRUE(batch.ok());
      if (!batch->has_value()) continue;
      any = true;
      EXPECT_EQ((*batch)->positions.begin, at);
      EXPECT_EQ((*batch)->step_begin, begin);
      at = (*batch)->positions.end;
      global = (*batch)->global_count;
    }
    if (!any) break;
    EXPECT_EQ(at - begin, global);
    ++steps;
  }
  EXPECT_EQ(at, 1000);
  EXPECT_EQ(steps, 8) << "seven of 128 and one of 4, in which the last worker has none";
}

class LeaseSession final : public testing::ScriptedSession {
 public:
  void Lease(std::vector<Slice> ranges, bool last, int64_t run = 1) {
    proto::Lease& lease = *Add().mutable_lease();
    lease.set_run(run);
    lease.set_last(last);
    for (const Slice range : ranges) {
      proto::LeaseRange& added = *lease.add_range();
      added.set_begin(range.begin);
      added.set_end(range.end);
      added.set_step_begin(range.begin);
      added.set_step_count(range.count());
    }
  }
  int requests() const {
    return static_cast<int>(std::count_if(sent().begin(), sent().end(),
                                          [](const auto& message) { return message.has_lease_request(); }));
  }
};

class LeasedSequenceTest : public ::testing::Test {
 protected:
  Slice Next() {
    const auto batch = sequence_->Next(true);
    EXPECT_TRUE(batch.ok()) << batch.status();
    return batch.ok() && batch->has_value() ? (*batch)->positions : Slice{-1, -1};
  }
  static constexpr Slice kNone{-1, -1};

  LeaseSession session_;
  std::unique_ptr<BatchSequence> sequence_ = CreateLeasedSequence(Positions(0, 100), session_);
};

TEST_F(LeasedSequenceTest, LeasedBatchesComeInOrderUntilTheLastLeaseEnds) {
  session_.Lease({{0, 10}, {10, 20}}, false);
  session_.Lease({{40, 50}}, true);
  EXPECT_EQ(Next(), (Slice{0, 10}));
  EXPECT_EQ(Next(), (Slice{10, 20}));
  EXPECT_EQ(Next(), (Slice{40, 50}));
  EXPECT_EQ(Next(), kNone);
}

TEST_F(LeasedSequenceTest, MoreBatchesAreRequestedBeforeTheyRunOut) {
  session_.Lease({{0, 10}, {10, 20}, {20, 30}, {30, 40}}, false);
  EXPECT_EQ(Next(), (Slice{0, 10}));
  EXPECT_EQ(session_.requests(), 0);
  Next();
  Next();
  EXPECT_EQ(session_.requests(), 1) << "two batches are left: time to ask";
  EXPECT_EQ(Next(), (Slice{30, 40}));
  EXPECT_EQ(session_.requests(), 1) << "and not to ask again before the answer";
}

TEST_F(LeasedSequenceTest, NextWithoutWaitingGivesNothingBeforeALeaseArrives) {
  const auto batch = sequence_->Next(false);
  ASSERT_TRUE(batch.ok());
  EXPECT_FALSE(batch->has_value());
  session_.Lease({{0, 10}}, true);
  EXPECT_EQ(Next(), (Slice{0, 10}));
}

TEST_F(LeasedSequenceTest, StoppedJobAbortsTheSegment) {
  session_.Stop();
  EXPECT_TRUE(absl::IsAborted(sequence_->Next(true).status()));
}

TEST_F(LeasedSequenceTest, LeasesOutsideTheSegmentAreRefused) {
  session_.Lease({{0, 10}}, false, 2);
  EXPECT_TRUE(absl::IsInternal(sequence_->Next(true).status()));
  session_.Lease({{90, 110}}, false);
  EXPECT_TRUE(absl::IsInternal(sequence_->Next(true).status()));
}

}  // namespace
}  // namespace tethys
