// Tests that Interrupt ends every wait of a communicator, even if peers are stopped, and that peers never get
// wrong sums.
//
// A rank that makes no call stands for a stopped rank: it receives nothing, so the sockets to it fill. Where
// a clock nearly stands still, deadlines never pass, so a wait that ends was ended by the interrupt.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "collectives/hierarchical_communicator.h"
#include "gtest/gtest.h"
#include "tests/collectives/ring_fixture.h"

namespace tethys {
namespace {

constexpr int64_t kShort = 100;       // Elements of a vector that is exchanged directly between all ranks.
constexpr int64_t kLong = 1'000'000;  // Elements of a vector that is larger than a socket's buffers.
const absl::Status kReason = absl::AbortedError("the group of workers changes");

// Advances by a microsecond whenever it is read: a rank stops spinning, but no deadline passes.
class SlowClock final : public Clock {
 public:
  Nanoseconds Now() const override { return ++looks_ * kMicrosecond; }
  int64_t looks() const { return looks_; }

 private:
  mutable std::atomic<int64_t> looks_{0};
};

enum class Time { kReal, kSlow };

// All ranks are connected when the constructor returns.
class World {
 public:
  World(int size, Medium medium, Time time = Time::kSlow) : ring_(size, medium), clocks_(size), ranks_(size) {
    for (RingOptions& options : ring_.options) {
      if (time == Time::kSlow) options.clock = &clocks_[options.rank];
      options.step_timeout = options.connect_timeout = 3600 * kSecond;
    }
    OnRanks(size, [&](int rank) { ranks_[rank] = *ring_.Create(rank); });
  }

  Communicator& operator[](int rank) { return *ranks_[rank]; }
  void Lose(int rank) { ranks_[rank].reset(); }

  // Gives a rank that is in a call time to reach its wait. Returns once the rank has read its clock many
  // times, or after 20 pauses of a millisecond, because a rank that sleeps does not read its clock. No result
  // depends on these pauses.
  void AwaitWait(int rank) const {
    const int64_t until = clocks_[rank].looks() + 1000;
    for (int turn = 0; turn < 20 && clocks_[rank].looks() < until; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  TestRing ring_;
  std::vector<SlowClock> clocks_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

absl::Status Reduce(Communicator& rank, int64_t count) {
  std::vector<float> data(count, 1.0f);
  return rank.AllReduce(absl::MakeSpan(data));
}

class Interrupt : public ::testing::TestWithParam<Medium> {};

INSTANTIATE_TEST_SUITE_P(Media, Interrupt, AllMedia(), NameOfMedium);

// With two hosts, the stopped rank 3 is a neighbour of rank 1 and no leader, so ranks wait in each of the
// three communicators that form a hierarchical communicator: one within each host, and one between the
// leaders.
TEST_P(Interrupt, CallThatWaitsForAStoppedRankReturnsTheReason) {
  using Call = std::function<absl::Status(Communicator&)>;
  const Call calls[] = {
      [](Communicator& rank) { return Reduce(rank, kLong); },
      [](Communicator& rank) { return Reduce(rank, kShort); },
      [](Communicator& rank) { return rank.Barrier(); },
      [](Communicator& rank) {
        std::vector<char> data(4 * kLong);
        return Broadcast(rank, absl::MakeSpan(data), 3);
      },
      [](Communicator& rank) { return rank.Send(3, std::vector<char>(4 * kLong)); },
      [](Communicator& rank) {
        std::vector<char> data(kShort);
        return rank.Receive(3, absl::MakeSpan(data));
      },
      [](Communicator& rank) { return rank.Split(0).status(); },
  };
  for (const Call& call : calls) {
    World world(4, GetParam());
    std::vector<absl::Status> answers(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] { answers[rank] = call(world[rank]); });
    }
    for (int rank = 0; rank < 3; ++rank) world.AwaitWait(rank);
    for (int rank = 0; rank < 3; ++rank) world[rank].Interrupt(kReason);
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < 3; ++rank) {
      for (const absl::Status& answer : {answers[rank], world[rank].Barrier()}) {
        // Rank 0 is interrupted first. Another rank may notice the loss of an interrupted rank before being
        // interrupted itself.
        EXPECT_TRUE(answer == kReason || (rank > 0 && absl::IsUnavailable(answer)))
            << rank << ": " << StatusText(answer);
      }
    }
  }
}

TEST_P(Interrupt, RankInterruptedBetweenCallsReturnsTheReasonFromItsNextCalls) {
  World world(2, GetParam());
  world[0].Interrupt(kReason);
  world[0].Interrupt(absl::CancelledError("again"));
  world[0].Abort(absl::CancelledError("the strategy was closed"));
  EXPECT_EQ(Reduce(world[0], kShort), kReason);
  EXPECT_EQ(world[0].Barrier(), kReason);
}

TEST_P(Interrupt, OtherRanksReportTheInterruptedRankAsLost) {
  World world(4, GetParam(), Time::kReal);
  std::vector<absl::Status> answers(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    if (rank != 1) threads.emplace_back([&, rank] { answers[rank] = Reduce(world[rank], kLong); });
  }
  world[1].Interrupt(kReason);
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == 1) continue;
    EXPECT_TRUE(absl::IsUnavailable(answers[rank])) << StatusText(answers[rank]);
  }
}

// Rank 1 is stopped, and rank 2 ends. Rank 0 notices that rank 2 has ended, but cannot report this to rank 1,
// because the socket to rank 1 is full (over TCP). Without an interrupt, rank 0 would try until a deadline
// that never passes here.
TEST_P(Interrupt, InterruptEndsTheSendingOfAnErrorToAStoppedRank) {
  World world(3, GetParam());
  absl::Status answer;
  std::thread fails([&] { answer = Reduce(world[0], kLong); });
  world.AwaitWait(0);
  world.Lose(2);
  world.AwaitWait(0);
  world[0].Interrupt(kReason);
  fails.join();
  EXPECT_TRUE(answer == kReason || absl::IsUnavailable(answer)) << StatusText(answer);
}

// Every rank sums until it fails. One rank is interrupted at some time, for example while it sends.
TEST_P(Interrupt, SumsAreRightAndRanksAreAtMostOneCollectiveApart) {
  constexpr int kWorld = 4;
  for (int turn = 0; turn < 24; ++turn) {
    const int64_t count = turn % 2 == 0 ? kShort : 40'000;
    World world(kWorld, GetParam(), Time::kReal);
    std::atomic<int> steps[kWorld] = {};
    absl::Status answers[kWorld];
    std::thread interrupts([&] {
      while (steps[turn % kWorld] < turn) std::this_thread::yield();
      world[turn % kWorld].Interrupt(kReason);
    });
    OnRanks(kWorld, [&](int rank) {
      while (true) {
        std::vector<float> data(count);
        for (int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(i % 100 + rank + steps[rank]);
        answers[rank] = world[rank].AllReduce(absl::MakeSpan(data));
        if (!answers[rank].ok()) return;
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(data[i], static_cast<float>(kWorld * (i % 100 + steps[rank]) + 6)) << i;
        }
        ++steps[rank];
      }
    });
    interrupts.join();
    for (int rank = 0; rank < kWorld; ++rank) {
      const bool interrupted = rank == turn % kWorld;
      EXPECT_EQ(answers[rank].code(),
                interrupted ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable)
          << StatusText(answers[rank]);
    }
    const auto [fewest, most] = std::minmax_element(std::begin(steps), std::end(steps));
    EXPECT_LE(*most - *fewest, 1);
  }
}

TEST_P(Interrupt, NextGenerationFormsThroughTheSameListeners) {
  TestRing ring(3, GetParam());
  for (uint32_t generation = 1; generation <= 3; ++generation) {
    std::vector<std::unique_ptr<Interruption>> interruptions;
    for (RingOptions& options : ring.options) {
      interruptions.push_back(std::make_unique<Interruption>());
      options.generation = generation;
      options.interruption = interruptions.back().get();
    }
    ExpectAllOk(InRing(ring, [&](std::unique_ptr<Communicator>& rank) -> absl::Status {
      TETHYS_RETURN_IF_ERROR(Reduce(*rank, kShort));
      interruptions[rank->rank()]->Raise(kReason);
      EXPECT_EQ(Reduce(*rank, kShort), kReason);
      rank.reset();
      return absl::OkStatus();
    }));
  }
}

// Counts calls of Abort. Interrupt takes effect only after `call_ended`.
class SlowlyInterrupted final : public Communicator {
 public:
  SlowlyInterrupted(std::unique_ptr<Communicator> all, absl::Notification& call_ended,
                    std::atomic<int>& aborts)
      : all_(std::move(all)), call_ended_(call_ended), aborts_(aborts) {}

  int rank() const override { return all_->rank(); }
  int world_size() const override { return all_->world_size(); }
  absl::Status AllReduce(absl::Span<float> data) override { return all_->AllReduce(data); }
  absl::Status ReduceScatter(absl::Span<float> data) override { return all_->ReduceScatter(data); }
  Range OwnedBlock(int rank, int64_t count) const override { return all_->OwnedBlock(rank, count); }
  absl::Status AllGather(absl::Span<char> data, absl::Span<const Range> parts) override {
    return all_->AllGather(data, parts);
  }
  absl::Status Barrier() override { return all_->Barrier(); }
  absl::Status Send(int peer, absl::Span<const char> data) override { return all_->Send(peer, data); }
  absl::Status Receive(int peer, absl::Span<char> data) override { return all_->Receive(peer, data); }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour) override { return all_->Split(colour); }
  TrafficCount traffic() const override { return all_->traffic(); }
  void Abort(const absl::Status& reason) override {
    ++aborts_;
    all_->Abort(reason);
  }
  void Interrupt(const absl::Status& reason) override {
    call_ended_.WaitForNotification();
    all_->Interrupt(reason);
  }

 private:
  const std::unique_ptr<Communicator> all_;
  absl::Notification& call_ended_;
  std::atomic<int>& aborts_;
};

// A call returns as soon as one of the three communicators has been interrupted, by Interrupt or by the
// Interruption that all three watch. The other two may be interrupted later.
TEST(InterruptBetweenHosts, CallEndedByTheFirstInterruptedCommunicatorAbortsNoOtherRank) {
  for (const bool by_interruption : {false, true}) {
    TestRing ring(4);
    Interruption interruption;
    absl::Notification call_ended;
    std::atomic<int> aborts{0};
    std::unique_ptr<Communicator> ranks[4];
    OnRanks(4, [&](int rank) {
      std::unique_ptr<Communicator> all = *ring.Create(rank);
      if (rank == 0) all = std::make_unique<SlowlyInterrupted>(std::move(all), call_ended, aborts);
      ranks[rank] = *CreateCommunicatorOfHosts(all, {0, 1, 0, 1},
                                               {.member_names = ring.options[rank].MemberNames(),
                                                .step_timeout = 3600 * kSecond,
                                                .clock = &TestClock(),
                                                .interruption = rank == 0 ? &interruption : nullptr});
    });
    absl::Status answer;
    std::thread calls([&] {
      answer = Reduce(*ranks[0], kShort);
      call_ended.Notify();
    });
    by_interruption ? interruption.Raise(kReason) : ranks[0]->Interrupt(kReason);
    calls.join();
    EXPECT_EQ(answer, kReason) << by_interruption;
    EXPECT_EQ(aborts, 0) << by_interruption;
  }
}

// ------------------------------------------------------------------------------------------- forming

// Ranks whose forming can be interrupted.
struct InterruptibleRing : TestRing {
  InterruptibleRing(int world, Medium medium) : TestRing(world, medium), interruptions(world) {
    for (RingOptions& own : options) {
      own.interruption = &interruptions[own.rank];
      own.connect_timeout = own.step_timeout = 3600 * kSecond;
    }
  }
  std::vector<Interruption> interruptions;
};

class InterruptForming : public Interrupt {};

INSTANTIATE_TEST_SUITE_P(Media, InterruptForming, AllMedia(), NameOfMedium);

// Rank 1 is stopped: its listener exists, but accepts nothing. Rank 0 waits for callers, and rank 2 calls
// rank 1.
TEST_P(InterruptForming, RanksThatWaitForAStoppedRankReturnTheReason) {
  InterruptibleRing ring(3, GetParam());
  absl::Status answers[3];
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&, rank] { answers[rank] = ring.Create(rank).status(); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const int rank : {0, 2}) ring.interruptions[rank].Raise(kReason);
  for (std::thread& thread : threads) thread.join();
  for (const int rank : {0, 2}) EXPECT_EQ(answers[rank], kReason) << StatusText(answers[rank]);
}

// Rank 2 is stopped after the ring has formed, before shared memory is agreed on.
TEST_P(InterruptForming, ExchangeThatWaitsForAStoppedRankReturnsTheReason) {
  InterruptibleRing ring(3, GetParam());
  absl::Status answers[2];
  std::unique_ptr<Communicator> stopped;
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      const absl::StatusOr<Exchange> exchange =
          CreateExchange(*ring.listeners[rank], ring.options[rank], proto::Tuning::AUTOMATIC);
      answers[rank] = exchange.status();
    });
  }
  stopped = *CreateRingCommunicator(*ring.listeners[2], ring.options[2]);
  for (const int rank : {0, 1}) ring.interruptions[rank].Raise(kReason);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& answer : answers) {
    // Rank 1 may have noticed the loss of rank 0 before being interrupted itself.
    EXPECT_TRUE(answer == kReason || absl::IsUnavailable(answer)) << StatusText(answer);
  }
  EXPECT_EQ(answers[0], kReason);
}

TEST_P(InterruptForming, RingIsNotFormedAfterTheInterrupt) {
  InterruptibleRing ring(2, GetParam());
  for (const int rank : {0, 1}) {
    ring.interruptions[rank].Raise(kReason);
    EXPECT_EQ(ring.Create(rank).status(), kReason);
  }
}

// Rank 1 takes part in the first collective of Split, and is stopped before the new communicators form.
TEST(InterruptSplit, SplitThatWaitsForAStoppedRankReturnsTheReason) {
  World world(2, Medium::kTcp);
  absl::Status answer;
  std::thread splits([&] { answer = world[0].Split(0).status(); });
  EXPECT_TRUE(AllGather(world[1], 0).ok());
  world[0].Interrupt(kReason);
  splits.join();
  EXPECT_EQ(answer, kReason);
}

// A communicator that Split returned does not depend on the communicator that was split.
TEST(InterruptSplit, InterruptOfACommunicatorLeavesItsSplitPartsUsable) {
  for (const Medium medium : {Medium::kTcp, Medium::kSharedMemory}) {
    ExpectAllOk(InRing(
        2,
        [](std::unique_ptr<Communicator>& rank) -> absl::Status {
          TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> part, rank->Split(0));
          rank->Interrupt(kReason);
          TETHYS_RETURN_IF_ERROR(Reduce(*part, kShort));
          return part->Barrier();
        },
        medium));
  }
}

}  // namespace
}  // namespace tethys
