// Mirrored training by work on streams, on devices that are as late as they may be, with a ring of threads in
// the place of NCCL.
#include <memory>
#include <string>
#include <utility>

#include "collectives/stream_mirrored_strategy.h"
#include "gmock/gmock.h"
#include "tests/testing/late_device.h"
#include "tests/workers/replica.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What a rank's stream communicator is made to do.
struct Fault {
  int64_t fails_at = -1;   // Call of AllReduce that fails when it is put on the stream.
  int64_t breaks_at = -1;  // Call whose work fails when it happens.
};

// Sums by the ring when the stream comes to it.
class RingOnStream final : public StreamCommunicator {
 public:
  RingOnStream(std::unique_ptr<Communicator> ring, Fault fault, bool& aborted)
      : ring_(std::move(ring)), fault_(fault), aborted_(aborted) {}

  int rank() const override { return ring_->rank(); }
  int world_size() const override { return ring_->world_size(); }
  absl::Status AllReduce(Stream& stream, float* data, int64_t count) override {
    const int64_t call = calls_++;
    if (call == fault_.fails_at) return absl::InternalError("put nothing");
    testing::PutWork(stream, [this, call, data, count]() -> absl::Status {
      if (call == fault_.breaks_at) return error_ = absl::InternalError("broke");
      const absl::Status reduced = ring_->AllReduce({data, static_cast<size_t>(count)});
      if (!reduced.ok()) error_ = reduced;
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }
  absl::Status Check() override { return error_; }
  void Abort() override {
    aborted_ = true;
    ring_->Abort(absl::CancelledError("aborted"));
  }
  std::string Describe() const override { return "a ring on a stream"; }

 private:
  const std::unique_ptr<Communicator> ring_;
  const Fault fault_;
  bool& aborted_;
  int64_t calls_ = 0;
  absl::Status error_;
};

std::unique_ptr<Strategy> OnStream(Replica& replica, std::unique_ptr<Communicator> ring, Fault fault,
                                   bool& aborted, Nanoseconds timeout = 30 * kSecond) {
  return CreateStreamMirroredStrategy(std::make_unique<RingOnStream>(std::move(ring), fault, aborted),
                                      replica.MakeUpdate(), replica.device(), replica.stream(),
                                      {.bucket_bytes = 256, .step_timeout = timeout, .clock = &TestClock()})
      .value();
}

TEST(StreamMirrored, GivesTheCpusBits) {
  bool aborted[3] = {};
  const auto parameters = TrainMirrored(
      3, [] { return testing::CreateLateDevice(); },
      [&](Replica& replica, auto ring) {
        bool& own = aborted[ring->rank()];
        return OnStream(replica, std::move(ring), {}, own);
      });
  EXPECT_EQ(parameters, MirroredOnTheCpu(3));
  EXPECT_THAT(aborted, ::testing::Each(false));
}

// One rank alone: what it does with an error does not need others.
absl::Status TrainAlone(Fault fault, bool& aborted, testing::LateDeviceOptions device = {},
                        Nanoseconds timeout = 30 * kSecond) {
  absl::Status status;
  ExpectAllOk(InRing(1, [&](std::unique_ptr<Communicator>& ring) {
    Replica replica(testing::CreateLateDevice(device), 0, 1);
    status = replica.Train(OnStream(replica, std::move(ring), fault, aborted, timeout));
    return absl::OkStatus();
  }));
  return status;
}

TEST(StreamMirrored, AnErrorOnTheWayToTheStreamNamesRankAndBucketAndAborts) {
  bool aborted = false;
  const absl::Status status = TrainAlone({.fails_at = 1}, aborted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step 0, rank 0 of 1, bucket 1 of "), HasSubstr("a ring on a stream"),
                    HasSubstr("put nothing")));
  EXPECT_TRUE(aborted);
}

TEST(StreamMirrored, AnErrorOnTheStreamIsSeenInFinishStepAndAborts) {
  bool aborted = false;
  const absl::Status status = TrainAlone({.breaks_at = 2}, aborted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step 0"), HasSubstr("bucket 2"), HasSubstr("broke")));
  EXPECT_TRUE(aborted);
}

TEST(StreamMirrored, AStreamThatHangsEndsByTheDeadlineAndAborts) {
  bool aborted = false;
  const absl::Status status = TrainAlone({}, aborted, {.hangs = true}, 20 * kMillisecond);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bucket 0"));
  EXPECT_TRUE(aborted);
}

}  // namespace
}  // namespace tethys
