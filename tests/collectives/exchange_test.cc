// Which medium is chosen, and what is said about it.
#include "collectives/exchange.h"

#include "gmock/gmock.h"
#include "tests/collectives/ring_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What every rank is answered, the description or the error.
std::vector<std::string> Choose(int world, Medium medium, proto::Mirrored::Transport transport) {
  TestRing ring(world, medium);
  std::vector<std::string> answers(world);
  OnRanks(world, [&](int rank) {
    const absl::StatusOr<Exchange> exchange =
        CreateExchange(*ring.listeners[rank], ring.options[rank], {.transport = transport});
    answers[rank] = exchange.ok() ? exchange->description : StatusText(exchange.status());
  });
  return answers;
}

void ExpectAll(const std::vector<std::string>& answers, const ::testing::Matcher<std::string>& expected) {
  for (const std::string& answer : answers) EXPECT_THAT(answer, expected);
}

TEST(Exchange, SharesMemoryOnOneHostAndTellsWhatWasMeasured) {
  ExpectAll(Choose(3, Medium::kSharedMemory, proto::Mirrored::SHARED_MEMORY),
            AllOf(HasSubstr("shared memory among 3 workers"), HasSubstr("4 KiB in "),
                  HasSubstr("1024 KiB in "), HasSubstr("by TCP alone in ")));
}

TEST(Exchange, ByMeasurementIsTheSameChoiceOnAllRanks) {
  const std::vector<std::string> answers = Choose(3, Medium::kSharedMemory, proto::Mirrored::AUTOMATIC);
  ExpectAll(answers, AllOf(answers[0], HasSubstr("shared memory among 3 workers")));
}

TEST(Exchange, IsByTopologyWhereSomeShareAHost) {
  ExpectAll(Choose(3, Medium::kTwoHosts, proto::Mirrored::AUTOMATIC),
            HasSubstr("shared memory inside 2 hosts and TCP between them, 3 workers"));
}

TEST(Exchange, IsByTcpWhenTheJobSaysSo) {
  ExpectAll(Choose(2, Medium::kSharedMemory, proto::Mirrored::TCP),
            AllOf(HasSubstr("TCP among 2 workers: as the job says"), Not(HasSubstr("shared"))));
}

TEST(Exchange, IsByTcpWhereNoTwoShareAHost) {
  ExpectAll(Choose(2, Medium::kTwoHosts, proto::Mirrored::AUTOMATIC),
            HasSubstr("no two of them share a host"));
}

TEST(Exchange, RefusesSharedMemoryWhereNoTwoShareAHost) {
  ExpectAll(Choose(2, Medium::kTwoHosts, proto::Mirrored::SHARED_MEMORY),
            AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("leave it AUTOMATIC")));
}

TEST(Exchange, OfOneWorkerIsWithNobody) {
  ExpectAll(Choose(1, Medium::kTcp, proto::Mirrored::SHARED_MEMORY), HasSubstr("nobody to exchange with"));
}

// Network namespaces of one machine are hosts of their own: their processes bind to different addresses.
TEST(Hosts, AreToldApartByTheAddressThatRanksBindTo) {
  TestRing ring(5, Medium::kTwoHosts);
  OnRanks(5, [&](int rank) {
    const auto all = *CreateRingCommunicator(*ring.listeners[rank], ring.options[rank]);
    EXPECT_THAT(*FindHosts(*all, ring.options[rank].addresses), ::testing::ElementsAre(0, 1, 0, 1, 0));
  });
}

// Of two hosts with two ranks each, one rank stays away; all the others, on both hosts, are told.
TEST(TwoHosts, ASilentRankFailsAllOthersOnBothHosts) {
  TestRing ring(4, Medium::kTwoHosts);
  for (RingOptions& options : ring.options) options.step_timeout = 300 * kMillisecond;
  const auto answers = InRing(ring, [](std::unique_ptr<Communicator>& ranks) {
    std::vector<float> data(10000, 1.0f);
    return ranks->rank() == 3 ? absl::OkStatus() : ranks->AllReduce(absl::MakeSpan(data));
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(answers[rank].ok()) << rank;
}

TEST(TwoHosts, AnAbortReachesAllRanks) {
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
