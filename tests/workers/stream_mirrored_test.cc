// Tests mirrored training whose all-reduces are enqueued on streams of late devices (simulated asynchronous
// devices, tests/testing/late_device.h). A ring of threads takes the place of NCCL.
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "tests/workers/interrupted_strategy.h"
#include "tests/workers/ring_on_stream.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StreamMirrored, TrainedParametersEqualThoseOfTheCpuBitForBit) {
  Fate fates[3];
  const auto parameters = TrainMirrored(
      3, [] { return testing::CreateLateDevice(); },
      [&](TestReplica& replica, auto ring) {
        Fate& fate = fates[ring->rank()];
        return MirroredOnStream(replica, std::move(ring), {}, fate);
      });
  EXPECT_EQ(parameters, MirroredOnTheCpu(3));
  EXPECT_THAT(fates, ::testing::Each(::testing::Field(&Fate::aborted, false)));
}

TEST(StreamMirrored, ExchangeInBfloat16TrainsTheParametersOfACpuThatRoundsGradients) {
  Fate fates[3];
  const auto parameters = TrainMirrored(
      3, [] { return testing::CreateLateDevice(); },
      [&](TestReplica& replica, auto ring) {
        return MirroredOnStream(replica, std::move(ring), {}, fates[replica.rank()], InBfloat16());
      });
  EXPECT_EQ(parameters, MirroredOnTheCpuRoundedByHand(3));
  EXPECT_NE(parameters, MirroredOnTheCpu(3)) << "nothing was rounded";
}

// Only rank 0 has gradients that are not finite.
TEST(StreamMirrored, Bfloat16NanOnOneRankFailsTheStepOnAllRanks) {
  Fate fates[2];
  const auto answers = InRing(2, [&](std::unique_ptr<Communicator>& ring) -> absl::Status {
    TestReplica replica(testing::CreateLateDevice(), ring->rank(), 2);
    if (replica.rank() == 0) TETHYS_RETURN_IF_ERROR(replica.SetFirstWeight(kPoison));
    Fate& fate = fates[replica.rank()];
    return TrainByHand(replica, MirroredOnStream(replica, std::move(ring), {}, fate, InBfloat16()));
  });
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(answer.message()), HasSubstr("step 0"));
  }
}

// Trains a world of one rank, which is enough to cause these errors.
absl::Status TrainAlone(Fault fault, Fate& fate, testing::LateDeviceOptions device = {},
                        StreamMirroredOptions options = InFloat32()) {
  absl::Status status;
  ExpectAllOk(InRing(1, [&](std::unique_ptr<Communicator>& ring) {
    TestReplica replica(testing::CreateLateDevice(device), 0, 1);
    status = TrainByHand(replica, MirroredOnStream(replica, std::move(ring), fault, fate, options));
    return absl::OkStatus();
  }));
  return status;
}

TEST(StreamMirrored, EnqueuingErrorNamesRankAndBucketAndAbortsTheCommunicator) {
  Fate fate;
  const absl::Status status = TrainAlone({.fails_at = 1}, fate);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step 0, rank 0 of 1, bucket 1 of "), HasSubstr("a ring on a stream"),
                    HasSubstr("could not enqueue")));
  EXPECT_TRUE(fate.aborted);
}

TEST(StreamMirrored, ErrorOnTheStreamFailsTheStepAndAbortsTheCommunicator) {
  Fate fate;
  const absl::Status status = TrainAlone({.breaks_at = 2}, fate);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step 0"), HasSubstr("bucket 2"), HasSubstr("broke")));
  EXPECT_TRUE(fate.aborted);
}

TEST(StreamMirrored, HungStreamFailsAtTheDeadlineAndAbortsTheCommunicator) {
  Fate fate;
  const absl::Status status = TrainAlone({}, fate, {.hangs = true}, {.step_timeout = 20 * kMillisecond});
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bucket 0"));
  EXPECT_TRUE(fate.aborted);
}

// The stream hangs, as it would if the devices waited for a stopped rank.
TEST(StreamMirrored, InterruptedWaitForAHungStreamReturnsTheReasonAndAbortsTheCommunicator) {
  using At = InterruptedStrategy::At;
  for (const At at : {At::kBeginStep, At::kGradientReady, At::kEnqueueEnd, At::kAwaitEnd}) {
    Fate fate;
    ExpectAllOk(InRing(1, [&](std::unique_ptr<Communicator>& ring) {
      TestReplica replica(testing::CreateLateDevice({.hangs = true}), 0, 1);
      auto strategy = MirroredOnStream(replica, std::move(ring), {}, fate, {.step_timeout = 3600 * kSecond});
      const absl::Status status =
          TrainByHand(replica, std::make_unique<InterruptedStrategy>(std::move(strategy), at));
      EXPECT_TRUE(absl::IsAborted(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(std::string(InterruptedStrategy::Reason().message())));
      return absl::OkStatus();
    }));
    EXPECT_EQ(fate.aborted, at != At::kBeginStep);
  }
}

}  // namespace
}  // namespace tethys
