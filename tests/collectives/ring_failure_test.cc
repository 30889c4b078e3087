// Tests that every kind of failure gives all ranks the same error, which names the cause.
#include <atomic>
#include <chrono>
#include <thread>

#include "gmock/gmock.h"
#include "tests/collectives/lockstep_time.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/ps/tcp_proxy.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kShort = 100;  // Elements of a vector that is exchanged directly between all ranks.
// Elements of a vector that is sent around the ring; more than a socket's buffers hold.
constexpr int64_t kLong = 1'000'000;

absl::Status Reduce(Communicator& ring, int64_t count) {
  std::vector<float> data(count, 1.0f);
  return ring.AllReduce(absl::MakeSpan(data));
}

void ExpectAll(const std::vector<absl::Status>& answers, absl::StatusCode code,
               const ::testing::Matcher<std::string>& message) {
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    EXPECT_EQ(answers[rank].code(), code) << "rank " << rank << ": " << StatusText(answers[rank]);
    EXPECT_THAT(std::string(answers[rank].message()), message) << "rank " << rank;
  }
}

class RingFailure : public ::testing::TestWithParam<std::tuple<int, int64_t, Medium>> {
 protected:
  int world() const { return std::get<0>(GetParam()); }
  int64_t count() const { return std::get<1>(GetParam()); }
  Medium medium() const { return std::get<2>(GetParam()); }
  int last() const { return world() - 1; }
  std::vector<absl::Status> InWorld(const RankBody& body) const { return InRing(world(), body, medium()); }
};

TEST_P(RingFailure, DifferentCountOnOneRankFailsAllRanks) {
  const auto answers = InWorld([&](std::unique_ptr<Communicator>& ring) {
    return Reduce(*ring, ring->rank() == 1 ? count() + 1 : count());
  });
  ExpectAll(answers, absl::StatusCode::kInvalidArgument,
            AllOf(HasSubstr(absl::StrCat("[0, ", count(), ")")),
                  HasSubstr(absl::StrCat("[0, ", count() + 1, ")")), HasSubstr("rank 1")));
}

TEST_P(RingFailure, DifferentCollectiveOnOneRankFailsAllRanks) {
  const auto answers = InWorld([&](std::unique_ptr<Communicator>& ring) {
    return ring->rank() == last() ? ring->Barrier() : Reduce(*ring, count());
  });
  ExpectAll(answers, absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("barrier"), HasSubstr("reduce")));
}

TEST_P(RingFailure, DifferentRootOnOneRankFailsAllRanks) {
  const auto answers = InWorld([&](std::unique_ptr<Communicator>& ring) {
    std::vector<float> data(count());
    TETHYS_RETURN_IF_ERROR(Broadcast(*ring, BytesOf(absl::MakeSpan(data)), ring->rank() == 1 ? 1 : 0));
    return ring
        // Rank 1 gives another root, and so other parts of the gather. A rank whose data are already under
        // way gets this error only in the barrier.
        ->Barrier();
  });
  ExpectAll(answers, absl::StatusCode::kInvalidArgument, HasSubstr("gather"));
}

TEST_P(RingFailure, ReduceScatterOnOneRankAllReduceOnOthersFailsAll) {
  const auto answers = InWorld([&](std::unique_ptr<Communicator>& ring) {
    std::vector<float> data(count());
    TETHYS_RETURN_IF_ERROR(ring->rank() == last() ? ring->ReduceScatter(absl::MakeSpan(data))
                                                  : ring->AllReduce(absl::MakeSpan(data)));
    return ring->Barrier();
  });
  ExpectAll(answers, absl::StatusCode::kInvalidArgument, HasSubstr("reduce-scatter"));
}

TEST_P(RingFailure, RankThatSkipsACollectiveFailsAllRanks) {
  const auto answers = InWorld([&](std::unique_ptr<Communicator>& ring) {
    if (ring->rank() != 0) TETHYS_RETURN_IF_ERROR(Reduce(*ring, count()));
    return ring->Barrier();
  });
  ExpectAll(answers, absl::StatusCode::kInvalidArgument, HasSubstr("same order"));
}

TEST_P(RingFailure, LostRankIsNamedOnAllOthers) {
  auto answers = InWorld([&](std::unique_ptr<Communicator>& ring) {
    TETHYS_RETURN_IF_ERROR(Reduce(*ring, count()));
    if (ring->rank() == 1) {
      ring.reset();
      return absl::OkStatus();
    }
    return Reduce(*ring, count());
  });
  EXPECT_TRUE(answers[1].ok());
  answers.erase(answers.begin() + 1);
  ExpectAll(answers, absl::StatusCode::kUnavailable,
            AllOf(HasSubstr("lost rank 1 (worker 1 on host1)"), HasSubstr("collective 2")));
}

TEST_P(RingFailure, SilentRankIsNamedOnAllOthers) {
  constexpr Nanoseconds kPatience = 200 * kMicrosecond;
  TestRing ring(world(), medium());
  LockstepTime time(world(), kPatience / 8);
  for (RingOptions& options : ring.options) {
    options.step_timeout = kPatience;
    options.clock = &time.OfRank(options.rank);
  }
  const int silent = world() / 2;
  auto answers = InRing(ring, [&](std::unique_ptr<Communicator>& communicator) {
    const int rank = communicator->rank();
    time.Join(*communicator);
    // The silent rank stays connected until all other ranks have failed.
    const absl::Status answer = rank == silent ? absl::OkStatus() : Reduce(*communicator, count());
    time.Leave(*communicator);
    return answer;
  });
  answers.erase(answers.begin() + silent);
  ExpectAll(answers, absl::StatusCode::kDeadlineExceeded,
            HasSubstr(absl::StrCat(" s for rank ", silent, " (worker ", silent, " on host", silent, ")")));
}

TEST_P(RingFailure, RankThatStillComputes_IsAwaitedBeyondTheTimeout) {
  constexpr int kTimesOverdue = 5;
  TestRing ring(world(), medium());
  std::atomic<int> overdue{0};
  for (RingOptions& options : ring.options) {
    options.step_timeout = 10 * kMillisecond;
    options.peers_compute = [&overdue] { return ++overdue > 0; };
  }
  ExpectAllOk(InRing(ring, [&](std::unique_ptr<Communicator>& communicator) {
    const int formed = overdue;
    while (communicator->rank() == last() && overdue < formed + kTimesOverdue * world()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Reduce(*communicator, count());
  }));
  EXPECT_GE(overdue, kTimesOverdue);
}

TEST_P(RingFailure, AbortOfARankFailsAllRanksWithItsReason) {
  const auto answers = InWorld([&](std::unique_ptr<Communicator>& ring) {
    if (ring->rank() != 0) return Reduce(*ring, count());
    ring->Abort(absl::CancelledError("interrupted"));
    return Reduce(*ring, count());
  });
  ExpectAll(answers, absl::StatusCode::kCancelled,
            AllOf(HasSubstr("rank 0 (worker 0 on host0)"), HasSubstr("interrupted")));
}

TEST_P(RingFailure, EveryCallOnABrokenRingReturnsTheFirstError) {
  const auto answers = InWorld([&](std::unique_ptr<Communicator>& ring) {
    const absl::Status first = Reduce(*ring, count() + ring->rank());
    EXPECT_EQ(ring->Barrier(), first);
    EXPECT_EQ(Reduce(*ring, kShort), first);
    return first;
  });
  ExpectAll(answers, absl::StatusCode::kInvalidArgument, HasSubstr("same counts"));
}

INSTANTIATE_TEST_SUITE_P(WorldsAndCounts, RingFailure,
                         ::testing::Combine(::testing::Values(2, 3, 5), ::testing::Values(kShort, kLong),
                                            ::testing::Values(Medium::kTcp, Medium::kTls,
                                                              Medium::kSharedMemory)));

// A proxy between ranks 0 and 1 flips one bit.
TEST(RingFrames, DamagedPayload_FailsAllRanksNamingTheSender) {
  for (const int64_t count : {kShort, kLong}) {
    TestRing ring(3);
    TcpProxy proxy(ring.listeners[0]->address());
    ring.options[1].members[0].address = proxy.address();
    for (RingOptions& options : ring.options) options.checksums_on_loopback = true;
    const auto answers = InRing(ring, [&](std::unique_ptr<Communicator>& ranks) {
      TETHYS_RETURN_IF_ERROR(Reduce(*ranks, count));
      TETHYS_RETURN_IF_ERROR(ranks->Barrier());  // Now no byte of Reduce is in flight.
      if (ranks->rank() == 0) proxy.Damage(1.0f);
      TETHYS_RETURN_IF_ERROR(ranks->Barrier());
      TETHYS_RETURN_IF_ERROR(Reduce(*ranks, count));
      return ranks->Barrier();  // A rank that has received all data of the reduction gets the error here.
    });
    ExpectAll(answers, absl::StatusCode::kDataLoss,
              AllOf(AnyOf(HasSubstr("rank 0 (worker 0 on host0)"), HasSubstr("rank 1 (worker 1 on host1)")),
                    HasSubstr("[reduce, rank "), HasSubstr("step 4"), HasSubstr("damaged in transit")));
  }
}

TEST(RingAbort, AbortWakesARankBlockedInACollective) {
  TestRing ring(2);
  std::unique_ptr<Communicator> idle;
  std::thread other([&] { idle = *ring.Create(1); });
  std::unique_ptr<Communicator> blocked = *ring.Create(0);
  other.join();
  absl::Status answer;
  std::thread waits([&] { answer = Reduce(*blocked, kLong); });
  blocked->Abort(absl::CancelledError("interrupted"));
  waits.join();
  EXPECT_EQ(answer.code(), absl::StatusCode::kCancelled);
}

TEST(RingGather, PartOutsideOfTheDataIsRefused) {
  for (const Medium medium : {Medium::kTcp, Medium::kSharedMemory, Medium::kTwoHosts}) {
    const auto answers = InRing(
        3,
        [](std::unique_ptr<Communicator>& ring) {
          std::string data(10, 'x');
          const Range parts[] = {{0, 4}, {4, 4}, {8, 3}};
          EXPECT_EQ(ring->AllGather(absl::MakeSpan(data), absl::MakeSpan(parts, 2)).code(),
                    absl::StatusCode::kInvalidArgument);
          return ring->AllGather(absl::MakeSpan(data), parts);
        },
        medium);
    ExpectAll(answers, absl::StatusCode::kInvalidArgument,
              HasSubstr("the part of rank 2, 3 bytes from byte 8 on, is not within the 10 bytes of data"));
  }
}

TEST(RingBroadcast, RootOutsideTheWorldIsRefused) {
  const auto answers = InRing(1, [](std::unique_ptr<Communicator>& ring) { return Broadcast(*ring, {}, 1); });
  ExpectAll(answers, absl::StatusCode::kInvalidArgument, HasSubstr("rank 1 in a world of 1"));
}

}  // namespace
}  // namespace tethys
