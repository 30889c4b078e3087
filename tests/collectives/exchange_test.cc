// Tests the choice between TCP and shared memory for the exchange among workers, and the description of the
// choice.
#include "collectives/exchange.h"

#include "gmock/gmock.h"
#include "tests/collectives/forwarding_communicator.h"
#include "tests/collectives/ring_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The result on every rank: the description of the chosen exchange, or the error.
std::vector<std::string> Choose(int world, Medium medium, proto::Tuning::Transport transport) {
  TestRing ring(world, medium);
  std::vector<std::string> answers(world);
  OnRanks(world, [&](int rank) {
    const absl::StatusOr<Exchange> exchange =
        CreateExchange(*ring.listeners[rank], ring.options[rank], transport);
    answers[rank] = exchange.ok() ? exchange->description : StatusText(exchange.status());
  });
  return answers;
}

void ExpectAll(const std::vector<std::string>& answers, const ::testing::Matcher<std::string>& expected) {
  for (const std::string& answer : answers) EXPECT_THAT(answer, expected);
}

TEST(Exchange, AllRanksOnOneHost_UseSharedMemoryOnly) {
  for (const auto transport : {proto::Tuning::AUTOMATIC, proto::Tuning::SHARED_MEMORY}) {
    ExpectAll(Choose(3, Medium::kSharedMemory, transport), "shared memory among 3 workers");
  }
}

TEST(Exchange, RanksOnTwoHosts_UseSharedMemoryAndTcp) {
  ExpectAll(Choose(3, Medium::kTwoHosts, proto::Tuning::AUTOMATIC),
            HasSubstr("shared memory inside 2 hosts and TCP between them, 3 workers"));
}

TEST(Exchange, TransportTcp_UsesTcpOnOneHost) {
  ExpectAll(Choose(2, Medium::kSharedMemory, proto::Tuning::TCP),
            AllOf(HasSubstr("TCP among 2 workers: as the job says"), Not(HasSubstr("shared"))));
}

TEST(Exchange, EachRankOnItsOwnHost_UsesTcp) {
  ExpectAll(Choose(2, Medium::kTwoHosts, proto::Tuning::AUTOMATIC), HasSubstr("no two workers share a host"));
}

TEST(Exchange, EachRankOnItsOwnHost_RefusesSharedMemory) {
  ExpectAll(Choose(2, Medium::kTwoHosts, proto::Tuning::SHARED_MEMORY),
            AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("set it to AUTOMATIC")));
}

TEST(Exchange, OneWorker_UsesTcp) {
  ExpectAll(Choose(1, Medium::kTcp, proto::Tuning::SHARED_MEMORY),
            HasSubstr("TCP: one worker exchanges nothing"));
}

// Network namespaces of one machine count as different hosts: their processes bind to different addresses.
TEST(Hosts, RanksBoundToDifferentAddressesAreOnDifferentHosts) {
  TestRing ring(5, Medium::kTwoHosts);
  OnRanks(5, [&](int rank) {
    const auto all = *CreateRingCommunicator(*ring.listeners[rank], ring.options[rank]);
    EXPECT_THAT(*FindHosts(*all, ring.listeners[rank]->address()), ::testing::ElementsAre(0, 1, 0, 1, 0));
  });
}

// Counts the collectives by which a communicator is formed.
class CountingCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  absl::Status AllReduce(absl::Span<float> data) override {
    return ++calls_, ForwardingCommunicator::AllReduce(data);
  }
  absl::Status AllGather(absl::Span<char> data, absl::Span<const Range> parts) override {
    return ++calls_, ForwardingCommunicator::AllGather(data, parts);
  }
  absl::Status Barrier() override { return ++calls_, ForwardingCommunicator::Barrier(); }

  int calls() const { return calls_; }

 private:
  int calls_ = 0;
};

// A short collective, such as those that form the communicator, costs a frame from each rank to every other
// rank, so forming a communicator may use only a few collectives.
TEST(Forming, SharedMemoryCommunicatorIsFormedByThreeCollectivesForAnyWorldSize) {
  for (const int world : {2, 8}) {
    TestRing ring(world);
    OnRanks(world, [&](int rank) {
      const RingOptions& options = ring.options[rank];
      const auto all = *CreateRingCommunicator(*ring.listeners[rank], options);
      CountingCommunicator counting(*all);
      const std::vector<int> hosts = *FindHosts(counting, ring.listeners[rank]->address());
      EXPECT_EQ(counting.calls(), 1);
      // Two more collectives follow: one sends the memory's address, one checks that all ranks opened it.
      EXPECT_TRUE(CreateSharedMemoryCommunicator(
                      counting, hosts, {.member_names = options.MemberNames(), .clock = options.clock})
                      .ok());
      EXPECT_EQ(counting.calls(), 3);
    });
  }
}

// One of four ranks on two hosts makes no call; the other three, on both hosts, must get an error.
TEST(TwoHosts, SilentRankFailsAllOthersOnBothHosts) {
  TestRing ring(4, Medium::kTwoHosts);
  for (RingOptions& options : ring.options) options.step_timeout = 300 * kMillisecond;
  const auto answers = InRing(ring, [](std::unique_ptr<Communicator>& ranks) {
    std::vector<float> data(10000, 1.0f);
    return ranks->rank() == 3 ? absl::OkStatus() : ranks->AllReduce(absl::MakeSpan(data));
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(answers[rank].ok()) << rank;
}

TEST(TwoHosts, AbortByOneRankReachesAllRanksOfBothHosts) {
  const auto answers = InRing(
      5,
      [](std::unique_ptr<Communicator>& ranks) {
        if (ranks->rank() == 4) ranks->Abort(absl::CancelledError("interrupted"));
        std::vector<float> data(10000, 1.0f);
        return ranks->AllReduce(absl::MakeSpan(data));
      },
      Medium::kTwoHosts);
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kCancelled) << StatusText(answer);
    EXPECT_THAT(std::string(answer.message()), HasSubstr("interrupted"));
  }
}

}  // namespace
}  // namespace tethys
