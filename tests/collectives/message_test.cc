// Tests messages between two ranks, over sockets and in shared memory, and communicators that Split returns.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "collectives/suspect.h"
#include "gmock/gmock.h"
#include "tests/collectives/lockstep_time.h"
#include "tests/collectives/ring_fixture.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The bytes that `rank` sends as its `number`-th message.
std::string Words(int rank, int number, int64_t bytes) {
  std::string words(bytes, '\0');
  for (int64_t i = 0; i < bytes; ++i) words[i] = static_cast<char>(i * 7 + rank * 31 + number * 57);
  return words;
}

constexpr int64_t kSizes[] = {0, 1, 1000, 65'536, 65'537, 3'000'001};

absl::Status Say(Communicator& ranks, int to, int number, int64_t bytes) {
  return ranks.Send(to, Words(ranks.rank(), number, bytes));
}
absl::Status Hear(Communicator& ranks, int from, int number, int64_t bytes) {
  std::string heard(bytes, 'x');
  TETHYS_RETURN_IF_ERROR(ranks.Receive(from, absl::MakeSpan(heard)));
  EXPECT_TRUE(heard == Words(from, number, bytes))
      << "from " << from << " to " << ranks.rank() << ", " << bytes;
  return absl::OkStatus();
}

absl::Status Sum(Communicator& ranks, int64_t count, float expected) {
  std::vector<float> data(count, 1.0f);
  TETHYS_RETURN_IF_ERROR(ranks.AllReduce(absl::MakeSpan(data)));
  EXPECT_EQ(std::count(data.begin(), data.end(), expected), count);
  return absl::OkStatus();
}

class Messages : public ::testing::TestWithParam<Medium> {
 protected:
  std::vector<absl::Status> InWorld(int world, const RankBody& body) {
    return InRing(world, body, GetParam());
  }
};

TEST_P(Messages, OfEverySizeAreSentAroundAllRanks) {
  ExpectAllOk(InWorld(4, [](std::unique_ptr<Communicator>& ranks) {
    const int next = (ranks->rank() + 1) % 4, before = (ranks->rank() + 3) % 4;
    for (int number = 0; number < static_cast<int>(std::size(kSizes)); ++number) {
      const int64_t bytes = kSizes[number];
      if (ranks->rank() == 0) {
        TETHYS_RETURN_IF_ERROR(Say(*ranks, next, number, bytes));
        TETHYS_RETURN_IF_ERROR(Hear(*ranks, before, number, bytes));
      } else {
        TETHYS_RETURN_IF_ERROR(Hear(*ranks, before, number, bytes));
        TETHYS_RETURN_IF_ERROR(Say(*ranks, next, number, bytes));
      }
    }
    return absl::OkStatus();
  }));
}

TEST_P(Messages, ArriveInTheOrderSentBetweenEachPair) {
  ExpectAllOk(InWorld(5, [](std::unique_ptr<Communicator>& ranks) {
    for (int number = 0; number < 20; ++number) {
      for (int from = 0; from < 5; ++from) {
        for (int to = 0; to < 5; ++to) {
          if (from == to) continue;
          const int64_t bytes = 100 * number + from;
          if (ranks->rank() == from) TETHYS_RETURN_IF_ERROR(Say(*ranks, to, number, bytes));
          if (ranks->rank() == to) TETHYS_RETURN_IF_ERROR(Hear(*ranks, from, number, bytes));
        }
      }
    }
    return absl::OkStatus();
  }));
}

// Ranks 0 and 1 are several messages ahead of the other ranks, which only take part in the collectives.
TEST_P(Messages, SentBetweenCollectivesDisturbNoCollective) {
  ExpectAllOk(InWorld(4, [](std::unique_ptr<Communicator>& ranks) {
    for (int round = 0; round < 10; ++round) {
      TETHYS_RETURN_IF_ERROR(Sum(*ranks, 50'000, 4.0f));
      if (ranks->rank() == 0) TETHYS_RETURN_IF_ERROR(Say(*ranks, 1, round, 100'000));
      if (ranks->rank() == 1) TETHYS_RETURN_IF_ERROR(Hear(*ranks, 0, round, 100'000));
      TETHYS_RETURN_IF_ERROR(Sum(*ranks, 10, 4.0f));
    }
    return absl::OkStatus();
  }));
}

TEST_P(Messages, DifferentSizesAtSenderAndReceiverFailBoth) {
  const auto answers = InWorld(2, [](std::unique_ptr<Communicator>& ranks) {
    const absl::Status exchanged = ranks->rank() == 0 ? Say(*ranks, 1, 0, 3'000'000) : Hear(*ranks, 0, 0, 20);
    EXPECT_FALSE(exchanged.ok());
    EXPECT_EQ(ranks->Barrier(), exchanged) << "the first error is final";
    return exchanged;
  });
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kInvalidArgument) << StatusText(answer);
    EXPECT_THAT(std::string(answer.message()), AllOf(HasSubstr("message"), HasSubstr("[0, 20)")));
  }
}

TEST_P(Messages, OwnRankOrRankOutsideTheWorldIsRefusedAsPeer) {
  ExpectAllOk(InWorld(3, [](std::unique_ptr<Communicator>& ranks) {
    for (const int peer : {-1, 3, ranks->rank()}) {
      EXPECT_EQ(Say(*ranks, peer, 0, 1).code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(Hear(*ranks, peer, 0, 1).code(), absl::StatusCode::kInvalidArgument);
    }
    return ranks->Barrier();  // The communicator still works.
  }));
}

TEST_P(Messages, LostPeerIsNamedToTheRankThatReceivesOrSends) {
  for (const bool receives : {true, false}) {
    const auto answers = InWorld(3, [receives](std::unique_ptr<Communicator>& ranks) {
      TETHYS_RETURN_IF_ERROR(ranks->Barrier());
      if (ranks->rank() == 0) return receives ? Hear(*ranks, 1, 0, 10) : Say(*ranks, 1, 0, 9'000'000);
      if (ranks->rank() == 1) ranks.reset();
      return absl::OkStatus();
    });
    EXPECT_EQ(answers[0].code(), absl::StatusCode::kUnavailable) << StatusText(answers[0]);
    EXPECT_THAT(std::string(answers[0].message()),
                AllOf(HasSubstr("(worker 1 on host1)"), HasSubstr("message")));
  }
}

TEST_P(Messages, AbortWakesRanksBlockedInSendOrReceive) {
  TestRing ring(3, GetParam());
  std::vector<std::unique_ptr<Communicator>> ranks(3);
  OnRanks(3, [&](int rank) { ranks[rank] = *ring.Create(rank); });
  // Rank 2 makes no call.
  std::vector<absl::Status> answers(2);
  std::thread receives([&] { answers[0] = Hear(*ranks[0], 2, 0, 10); });
  std::thread sends([&] { answers[1] = Say(*ranks[1], 2, 0, 9'000'000); });
  for (const int rank : {0, 1}) ranks[rank]->Abort(absl::CancelledError("interrupted"));
  receives.join();
  sends.join();
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kCancelled) << StatusText(answer);
    EXPECT_THAT(std::string(answer.message()), HasSubstr("interrupted"));
  }
}

TEST_P(Messages, FailureOfTheSenderReachesTheReceiver) {
  const auto answers = InWorld(3, [](std::unique_ptr<Communicator>& ranks) {
    if (ranks->rank() == 1) return Hear(*ranks, 0, 0, 10);
    if (ranks->rank() == 2) return absl::OkStatus();
    ranks->Abort(absl::CancelledError("interrupted"));
    return Say(*ranks, 1, 0, 10);
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(answers[rank].code(), absl::StatusCode::kCancelled) << StatusText(answers[rank]);
    EXPECT_THAT(std::string(answers[rank].message()), HasSubstr("interrupted"));
  }
}

TEST_P(Messages, SilentPeerIsNamedAfterTheTimeout) {
  TestRing ring(2, GetParam());
  constexpr Nanoseconds kPatience = 200 * kMicrosecond;
  LockstepTime time(2, kPatience / 8);
  for (RingOptions& options : ring.options) {
    options.step_timeout = kPatience;
    options.clock = &time.OfRank(options.rank);
  }
  const auto answers = InRing(ring, [&](std::unique_ptr<Communicator>& ranks) {
    time.Join(*ranks);
    const absl::Status heard = ranks->rank() == 0 ? Hear(*ranks, 1, 0, 10) : absl::OkStatus();
    time.Leave(*ranks);
    return heard;
  });
  EXPECT_EQ(answers[0].code(), absl::StatusCode::kDeadlineExceeded) << StatusText(answers[0]);
  EXPECT_THAT(std::string(answers[0].message()), HasSubstr("for rank 1 (worker 1 on host1)"));
}

// Rank 1 is a separate process, which kills itself after its first message, while rank 0 waits for the
// second.
TEST_P(Messages, KilledProcessIsNamedToTheReceiver) {
  TestRing ring(2, GetParam());
  const pid_t child = fork();
  if (child == 0) {
    const std::unique_ptr<Communicator> ranks = *ring.Create(1);
    Say(*ranks, 0, 0, 1000).IgnoreError();
    kill(getpid(), SIGKILL);
  }
  const std::unique_ptr<Communicator> ranks = *ring.Create(0);
  const absl::Status heard = Hear(*ranks, 1, 0, 1000);
  EXPECT_TRUE(heard.ok()) << StatusText(heard);
  const absl::Status lost = Hear(*ranks, 1, 1, 1000);
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << StatusText(lost);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("lost rank 1 (worker 1 on host1)"));
  EXPECT_EQ(SuspectOf(Annotate(lost, "step 1")), "rank 1 (worker 1 on host1)");
  waitpid(child, nullptr, 0);
}

// The ranks of one colour sum and exchange a message without disturbing the ranks of the other colour.
TEST_P(Messages, SplitMakesOneCommunicatorPerColour) {
  ExpectAllOk(InWorld(6, [](std::unique_ptr<Communicator>& all) -> absl::Status {
    const int colours[] = {7, 0, 7, -1, 0, 7};
    const int rank = all->rank(), colour = colours[rank];
    TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> part, all->Split(colour));
    EXPECT_EQ(part == nullptr, colour < 0);
    if (part != nullptr) {
      const auto size = static_cast<int>(std::count(std::begin(colours), std::end(colours), colour));
      EXPECT_EQ(part->world_size(), size);
      EXPECT_EQ(part->rank(), std::count(colours, colours + rank, colour));
      for (const int64_t count : {10, 50'000}) {
        TETHYS_RETURN_IF_ERROR(Sum(*part, count, static_cast<float>(size)));
      }
      if (part->rank() == 0) TETHYS_RETURN_IF_ERROR(Say(*part, 1, 0, 5000));
      if (part->rank() == 1) TETHYS_RETURN_IF_ERROR(Hear(*part, 0, 0, 5000));
    }
    return Sum(*all, 50'000, 6.0f);  // The communicator that was split still works.
  }));
}

TEST_P(Messages, SplitCommunicatorsMaySplitAgainAndOutliveTheirOrigin) {
  ExpectAllOk(InWorld(6, [](std::unique_ptr<Communicator>& all) -> absl::Status {
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> half, all->Split(all->rank() / 3));
    TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> again, all->Split(all->rank() % 2));
    TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> pair, half->Split(half->rank() == 0 ? 0 : 1));
    TETHYS_RETURN_IF_ERROR(all->Barrier());
    all.reset();
    TETHYS_RETURN_IF_ERROR(Sum(*half, 50'000, 3.0f));
    half.reset();
    TETHYS_RETURN_IF_ERROR(Sum(*again, 50'000, 3.0f));
    return Sum(*pair, 50'000, pair->world_size() == 1 ? 1.0f : 2.0f);
  }));
}

TEST_P(Messages, FailureInOneSplitCommunicatorDoesNotAffectOthers) {
  const auto answers = InWorld(4, [](std::unique_ptr<Communicator>& all) -> absl::Status {
    TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> part, all->Split(all->rank() / 2));
    if (all->rank() == 0) part->Abort(absl::CancelledError("interrupted"));
    const absl::Status summed = Sum(*part, 50'000, 2.0f);
    TETHYS_RETURN_IF_ERROR(all->Barrier());
    return summed;
  });
  for (const int rank : {0, 1}) EXPECT_EQ(answers[rank].code(), absl::StatusCode::kCancelled);
  for (const int rank : {2, 3}) EXPECT_TRUE(answers[rank].ok()) << StatusText(answers[rank]);
}

INSTANTIATE_TEST_SUITE_P(Media, Messages, AllMedia(), NameOfMedium);

// One rank sends a message while the other rank is in a collective. (In shared memory, the ranks would notice
// this mistake only at the timeout.)
TEST(MessagesOverTcp, MessageDuringACollectiveOfTheReceiverFailsBothRanks) {
  const auto answers = InRing(2, [](std::unique_ptr<Communicator>& ranks) {
    return ranks->rank() == 0 ? Say(*ranks, 1, 0, 9'000'000) : ranks->Barrier();
  });
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kInvalidArgument) << StatusText(answer);
    EXPECT_THAT(std::string(answer.message()), AllOf(HasSubstr("message"), HasSubstr("barrier")));
  }
}

}  // namespace
}  // namespace tethys
