// Tests what only shared memory has: reduction in place, the memory object, and the detection of a peer's
// death.
#include "collectives/shared_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <latch>
#include <utility>

#include "collectives/suspect.h"
#include "gmock/gmock.h"
#include "tests/collectives/forwarding_communicator.h"
#include "tests/collectives/ring_fixture.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kArena = 700'000;

// A fraction; the sum of several fractions depends on the order of the additions.
float Fraction(int rank, int64_t i) { return 1.0f / static_cast<float>(3 + (i * 7 + rank * 13) % 1000); }

void FillFractions(int rank, absl::Span<float> data) {
  for (size_t i = 0; i < data.size(); ++i) data[i] = Fraction(rank, static_cast<int64_t>(i));
}

// The sums of the fractions by an all-reduce over TCP, equal on all ranks.
std::vector<float> SumsByTcp(int world, int64_t count) {
  std::vector<float> sums;
  ExpectAllOk(InRing(world, [&](std::unique_ptr<Communicator>& ring) {
    std::vector<float> data(count);
    FillFractions(ring->rank(), absl::MakeSpan(data));
    const absl::Status reduced = ring->AllReduce(absl::MakeSpan(data));
    if (ring->rank() == 0) sums = data;
    return reduced;
  }));
  return sums;
}

class Arenas : public ::testing::TestWithParam<int> {
 protected:
  int world() const { return GetParam(); }
  void WithArenas(const std::function<absl::Status(Communicator&, absl::Span<float>)>& body) const {
    ExpectAllOk(InRing(
        world(),
        [&](std::unique_ptr<Communicator>& ranks) -> absl::Status {
          TETHYS_ASSIGN_OR_RETURN(float* const arena, ranks->AllocateForReduction(kArena));
          if (arena == nullptr) return absl::InternalError("no arena");
          return body(*ranks, {arena, static_cast<size_t>(kArena)});
        },
        Medium::kSharedMemory));
  }
};

TEST_P(Arenas, AllReduceSumsLikeTcpRingAndChangesNothingOutside) {
  for (const int64_t count : {1, 4096, 4097, 50021, 500009}) {
    const std::vector<float> expected = SumsByTcp(world(), count);
    WithArenas([&](Communicator& ranks, absl::Span<float> arena) {
      const absl::Span<float> data = arena.subspan(1003, count);
      arena[1002] = arena[1003 + count] = 7.0f;
      FillFractions(ranks.rank(), data);
      TETHYS_RETURN_IF_ERROR(ranks.AllReduce(data));
      EXPECT_EQ(0, std::memcmp(data.data(), expected.data(), count * sizeof(float))) << count;
      EXPECT_EQ(arena[1002] + arena[1003 + count], 14.0f);
      return absl::OkStatus();
    });
  }
}

TEST_P(Arenas, ReduceScatterSumsTheBlockOfTheRankLikeTheTcpRing) {
  for (const int64_t count : {4097, 500009}) {
    const std::vector<float> expected = SumsByTcp(world(), count);
    WithArenas([&](Communicator& ranks, absl::Span<float> arena) {
      const absl::Span<float> data = arena.subspan(1003, count);
      FillFractions(ranks.rank(), data);
      TETHYS_RETURN_IF_ERROR(ranks.ReduceScatter(data));
      const Range own = ranks.OwnedBlock(ranks.rank(), count);
      EXPECT_EQ(0, std::memcmp(&data[own.begin], &expected[own.begin], own.count * sizeof(float))) << count;
      return absl::OkStatus();
    });
  }
}

TEST_P(Arenas, AreZeroedAtFirstAndReceiveBroadcasts) {
  WithArenas([&](Communicator& ranks, absl::Span<float> arena) {
    EXPECT_EQ(std::count(arena.begin(), arena.end(), 0.0f), kArena);
    for (int root = 0; root < world(); ++root) {
      const absl::Span<float> data = arena.subspan(17 * root, 100003);
      std::fill(data.begin(), data.end(), static_cast<float>(ranks.rank() + 1));
      TETHYS_RETURN_IF_ERROR(Broadcast(ranks, BytesOf(data), root));
      EXPECT_EQ(std::count(data.begin(), data.end(), static_cast<float>(root + 1)), 100003);
    }
    return absl::OkStatus();
  });
}

// `tethys plan` predicts the same number of bytes.
TEST_P(Arenas, AllReduceReadsAndWritesOneBlockForEachOtherRank) {
  const int64_t count = 60'000;  // A multiple of every world size.
  WithArenas([&](Communicator& ranks, absl::Span<float> arena) {
    const TrafficCount before = ranks.traffic();
    TETHYS_RETURN_IF_ERROR(ranks.AllReduce(arena.subspan(0, count)));
    const int64_t expected = (world() - 1) * count / world() * static_cast<int64_t>(sizeof(float));
    EXPECT_EQ(ranks.traffic().bytes_in - before.bytes_in, expected);
    EXPECT_EQ(ranks.traffic().bytes_out - before.bytes_out, expected);
    return absl::OkStatus();
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, Arenas, ::testing::Values(2, 3, 5));

TEST(ArenasOfTwoHosts, AllReduceSumsRanksOfBothHosts) {
  ExpectAllOk(InRing(
      5,
      [](std::unique_ptr<Communicator>& ranks) -> absl::Status {
        TETHYS_ASSIGN_OR_RETURN(float* const arena, ranks->AllocateForReduction(kArena));
        const absl::Span<float> data(arena, kArena);
        std::fill(data.begin(), data.end(), static_cast<float>(ranks->rank() + 1));
        TETHYS_RETURN_IF_ERROR(ranks->AllReduce(data));
        EXPECT_EQ(std::count(data.begin(), data.end(), 15.0f), kArena);
        return absl::OkStatus();
      },
      Medium::kTwoHosts));
}

TEST(ArenasAndOtherMemory, MixedInOneCollectiveAreRefused) {
  const auto answers = InRing(
      3,
      [](std::unique_ptr<Communicator>& ranks) -> absl::Status {
        TETHYS_ASSIGN_OR_RETURN(float* const arena, ranks->AllocateForReduction(kArena));
        std::vector<float> elsewhere(kArena);
        float* const data = ranks->rank() == 1 ? elsewhere.data() : arena;
        return ranks->AllReduce({data, static_cast<size_t>(kArena)});
      },
      Medium::kSharedMemory);
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kInvalidArgument) << StatusText(answer);
  }
}

// Calls `after` once its first all-gather is complete.
class AfterFirstAllGather final : public ForwardingCommunicator {
 public:
  AfterFirstAllGather(Communicator& inner, std::function<void()> after)
      : ForwardingCommunicator(inner), after_(std::move(after)) {}
  absl::Status AllGather(absl::Span<char> data, absl::Span<const Range> parts) override {
    TETHYS_RETURN_IF_ERROR(ForwardingCommunicator::AllGather(data, parts));
    if (after_) std::exchange(after_, nullptr)();
    return absl::OkStatus();
  }

 private:
  std::function<void()> after_;
};

// Rank 0 leaves after it has sent the address of its memory and, in some rounds, the report that it has no
// error.
TEST(SharedMemoryCommunicator, RankZeroThatLeavesBeforeOthersOpenItsMemoryIsReportedLost) {
  for (int round = 0; round < 20; ++round) {
    TestRing ring(2);
    std::vector<std::unique_ptr<Communicator>> all(2);
    std::latch ready(2), left(1);
    OnRanks(2, [&](int rank) {
      all[rank] = *ring.Create(rank);
      ready.arrive_and_wait();
      AfterFirstAllGather late(*all[rank], [&] {
        if (rank == 0) return;
        all[0]->Interrupt(absl::AbortedError("halted"));
        left.wait();
      });
      const absl::Status made =
          CreateSharedMemoryCommunicator(late, {0, 0},
                                         {.member_names = {"worker 0", "worker 1"}, .clock = &TestClock()})
              .status();
      EXPECT_EQ(made.code(), rank == 0 ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable) << made;
      if (rank == 0) left.count_down();
    });
  }
}

// The lost rank is a child process, because the kernel reports the death of a process and not of a thread.
TEST(SharedMemory, DeathOfAProcessIsReportedBeforeTheDeadline) {
  TestRing ring(2, Medium::kSharedMemory);
  const pid_t child = fork();
  if (child == 0) {
    const std::unique_ptr<Communicator> ranks = *ring.Create(1);
    ranks->Barrier().IgnoreError();
    kill(getpid(), SIGKILL);
  }
  const std::unique_ptr<Communicator> ranks = *ring.Create(0);
  EXPECT_TRUE(ranks->Barrier().ok());
  const absl::Status lost = ranks->Barrier();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << StatusText(lost);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("lost rank 1 (worker 1 on host1)"));
  EXPECT_EQ(SuspectOf(lost), "rank 1 (worker 1 on host1)");
  waitpid(child, nullptr, 0);
}

TEST(SharedMemory, MemoryOpenedByItsAddressHasTheSameContents) {
  const SharedMemory made = *SharedMemory::Create(1000);
  const SharedMemory opened = *SharedMemory::Open(made.address(), 1000);
  made.data()[999] = 'x';
  EXPECT_EQ(opened.data()[999], 'x');
}

TEST(SharedMemory, WrongKeyWrongSizeOrClosedDescriptor_IsRefused) {
  SharedMemory made = *SharedMemory::Create(1000);
  SharedMemoryAddress other_key = made.address();
  ++other_key.key[1];
  EXPECT_EQ(SharedMemory::Open(other_key, 1000).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SharedMemory::Open(made.address(), 1001).status().code(), absl::StatusCode::kFailedPrecondition);
  made.CloseDescriptor();
  EXPECT_EQ(SharedMemory::Open(made.address(), 1000).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Truncated shared memory would kill every process that touches memory beyond its end.
TEST(SharedMemory, SealedMemoryCannotShrinkAndUnsealedFileIsRefused) {
  const SharedMemory made = *SharedMemory::Create(1000);
  EXPECT_NE(ftruncate(static_cast<int>(made.address().descriptor), 10), 0);
  const FileDescriptor unsealed(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), 1000 + sizeof(SharedMemoryAddress::key)), 0);
  const SharedMemoryAddress address{.process = getpid(), .descriptor = unsealed.get()};
  EXPECT_EQ(SharedMemory::Open(address, 1000).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SharedMemory, TooLargeMemoryIsRefusedNamingItsSize) {
  const absl::Status status = SharedMemory::Create(int64_t{1} << 60).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1152921504606846976 bytes"));
}

}  // namespace
}  // namespace tethys
