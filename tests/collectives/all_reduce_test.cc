// Tests the results of the collectives over TCP, TLS and shared memory, for several world sizes and vector
// lengths.
#include <atomic>
#include <cstring>

#include "runtime/base/random.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/testing/allocation_counter.h"

namespace tethys {
namespace {

// Vectors without elements may have null pointers, which memcmp does not accept.
bool SameBits(const float* a, const float* b, int64_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(float)) == 0;
}

class Collectives : public ::testing::TestWithParam<std::tuple<Medium, int>> {
 protected:
  int world() const { return std::get<1>(GetParam()); }
  std::vector<absl::Status> InWorld(const RankBody& body) const {
    return InRing(world(), body, std::get<0>(GetParam()));
  }

  std::vector<int64_t> Counts() const {
    std::vector<int64_t> counts = {0, 1, 2, 3, world() - 1, world(), world() + 1, 1000, 4096, 4097, 100003};
    counts.push_back(300001 + world());
    return counts;
  }
};

// Small integers: their sums are exact in any order.
float Exact(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 1000 - 500); }

std::vector<float> RandomVector(uint64_t seed, int64_t count) {
  RandomStream stream(seed, RandomPurpose::kTest, 0);
  std::vector<float> values(count);
  for (float& value : values) value = ToUnitFloat(stream.Next32()) - 0.5f;
  return values;
}

TEST_P(Collectives, AllReduceSumsVectorsOfEveryLength) {
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
    for (const int64_t count : Counts()) {
      std::vector<float> data(count), sums(count);
      for (int64_t i = 0; i < count; ++i) {
        data[i] = Exact(ring->rank(), i);
        for (int rank = 0; rank < world(); ++rank) sums[i] += Exact(rank, i);
      }
      TETHYS_RETURN_IF_ERROR(ring->AllReduce(absl::MakeSpan(data)));
      EXPECT_TRUE(data == sums) << "rank " << ring->rank() << ", count " << count;
    }
    return absl::OkStatus();
  }));
}

TEST_P(Collectives, SumsAreBitEqualOnAllRanksAndInReruns) {
  for (const int64_t count : {int64_t{1000}, int64_t{50021}}) {
    std::vector<std::vector<float>> results(2 * world());
    for (int rerun = 0; rerun < 2; ++rerun) {
      ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
        std::vector<float>& data = results[rerun * world() + ring->rank()];
        data = RandomVector(ring->rank(), count);
        return ring->AllReduce(absl::MakeSpan(data));
      }));
    }
    for (const std::vector<float>& result : results) {
      EXPECT_TRUE(SameBits(result.data(), results[0].data(), count));
    }
  }
}

TEST_P(Collectives, BroadcastCopiesTheRootsDataToAll) {
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
    for (int root = 0; root < world(); ++root) {
      for (const int64_t count : {0, 1, 5000, 200003}) {
        std::vector<float> data(count, static_cast<float>(ring->rank() + 1));
        TETHYS_RETURN_IF_ERROR(Broadcast(*ring, BytesOf(absl::MakeSpan(data)), root));
        EXPECT_TRUE(data == std::vector<float>(count, static_cast<float>(root + 1)));
      }
    }
    return absl::OkStatus();
  }));
}

// The vectors hold fractions, whose sums depend on the order of the additions.
TEST_P(Collectives, ReduceScatterGivesEachRankItsBlockOfTheAllReduce) {
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
    for (const int64_t count : Counts()) {
      std::vector<float> data = RandomVector(ring->rank(), count), sums = data;
      TETHYS_RETURN_IF_ERROR(ring->AllReduce(absl::MakeSpan(sums)));
      TETHYS_RETURN_IF_ERROR(ring->ReduceScatter(absl::MakeSpan(data)));
      const Range own = ring->OwnedBlock(ring->rank(), count);
      EXPECT_TRUE(SameBits(data.data() + own.begin, sums.data() + own.begin, own.count))
          << "rank " << ring->rank() << ", count " << count;
    }
    return absl::OkStatus();
  }));
}

TEST_P(Collectives, OwnedBlocksAreDisjointAndCoverTheVector) {
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
    for (const int64_t count : Counts()) {
      std::vector<int> owners(count);
      for (int rank = 0; rank < world(); ++rank) {
        const Range block = ring->OwnedBlock(rank, count);
        for (int64_t i = block.begin; i < block.end(); ++i) ++owners.at(i);
      }
      EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), count);
    }
    return absl::OkStatus();
  }));
}

TEST_P(Collectives, GatherOfOwnedBlocksCompletesAnAllReduce) {
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
    for (const int64_t count : Counts()) {
      std::vector<float> data = RandomVector(ring->rank(), count), sums = data;
      TETHYS_RETURN_IF_ERROR(ring->AllReduce(absl::MakeSpan(sums)));
      TETHYS_RETURN_IF_ERROR(ring->ReduceScatter(absl::MakeSpan(data)));
      std::vector<Range> parts;
      for (int rank = 0; rank < world(); ++rank) {
        const Range block = ring->OwnedBlock(rank, count);
        parts.push_back({.begin = block.begin * 4, .count = block.count * 4});
      }
      TETHYS_RETURN_IF_ERROR(ring->AllGather(BytesOf(absl::MakeSpan(data)), parts));
      EXPECT_TRUE(SameBits(data.data(), sums.data(), count)) << count;
    }
    return absl::OkStatus();
  }));
}

// The parts have different sizes, and some are empty. Part 0 lies last in memory, and there are gaps between
// the parts.
TEST_P(Collectives, AllGatherCopiesEveryPartAndNothingElse) {
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
    for (const int64_t unit : {0, 1, 1001, 70'001}) {
      std::vector<Range> parts(world());
      int64_t bytes = 3;
      for (int rank = world() - 1; rank >= 0; --rank) {
        parts[rank] = {.begin = bytes, .count = rank % 3 * unit};
        bytes = parts[rank].end() + 5;
      }
      std::string data(bytes, static_cast<char>('a' + ring->rank())), expected = data;
      for (int rank = 0; rank < world(); ++rank) {
        expected.replace(parts[rank].begin, parts[rank].count, parts[rank].count,
                         static_cast<char>('a' + rank));
      }
      TETHYS_RETURN_IF_ERROR(ring->AllGather(absl::MakeSpan(data), parts));
      EXPECT_TRUE(data == expected) << "rank " << ring->rank() << ", unit " << unit;
    }
    return absl::OkStatus();
  }));
}

TEST_P(Collectives, AllGatherKeepsTheBitsOfEveryRanksValue) {
  // As floats these bits would be NaN, a denormal and minus zero.
  const uint32_t bits[] = {0x7f800001, 0x00000001, 0x80000000, 1, 2, 3};
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) -> absl::Status {
    TETHYS_ASSIGN_OR_RETURN(const std::vector<uint32_t> gathered, AllGather(*ring, bits[ring->rank()]));
    EXPECT_TRUE(gathered == std::vector<uint32_t>(bits, bits + world()));
    return absl::OkStatus();
  }));
}

TEST_P(Collectives, NoRankLeavesABarrierBeforeAllHaveEntered) {
  std::atomic<int> entered = 0;
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
    for (int round = 1; round <= 50; ++round) {
      ++entered;
      TETHYS_RETURN_IF_ERROR(ring->Barrier());
      EXPECT_GE(entered.load(), round * world());
      TETHYS_RETURN_IF_ERROR(ring->Barrier());
    }
    return absl::OkStatus();
  }));
}

TEST_P(Collectives, CommunicatorsReportTheirRankAndTheWorldSize) {
  std::atomic<int> sum = 0;
  ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
    EXPECT_EQ(ring->world_size(), world());
    sum += ring->rank();
    return absl::OkStatus();
  }));
  EXPECT_EQ(sum.load(), world() * (world() - 1) / 2);
}

// A rank may destroy its communicator after its last collective, while other ranks still read its data.
TEST_P(Collectives, RankLeavingAfterItsLastCollectiveIsNoError) {
  for (int round = 0; round < 20; ++round) {
    ExpectAllOk(InWorld([&](std::unique_ptr<Communicator>& ring) {
      std::vector<float> data(60007, 1.0f);
      const absl::Status reduced = ring->AllReduce(absl::MakeSpan(data));
      ring.reset();
      return reduced;
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(MediaAndWorldSizes, Collectives,
                         ::testing::Combine(AllMedia(), ::testing::Values(1, 2, 3, 4, 5, 6)),
                         [](const auto& info) {
                           return absl::StrCat(MediumName(std::get<0>(info.param)), "Of",
                                               std::get<1>(info.param));
                         });

// The sums must be equal, so that a run over shared memory can be repeated over TCP with the same result.
TEST(SharedMemory, AllReduceSumsEqualTcpRingSumsBitForBit) {
  for (const int world : {2, 3, 5}) {
    for (const int64_t count : {1000, 50021, 500009}) {
      std::vector<std::vector<float>> sums;
      for (const Medium medium : {Medium::kTcp, Medium::kSharedMemory}) {
        ExpectAllOk(InRing(
            world,
            [&](std::unique_ptr<Communicator>& ring) {
              std::vector<float> data = RandomVector(ring->rank(), count);
              const absl::Status status = ring->AllReduce(absl::MakeSpan(data));
              if (ring->rank() == 0) sums.push_back(data);
              return status;
            },
            medium));
      }
      ASSERT_EQ(sums.size(), 2);
      EXPECT_TRUE(SameBits(sums[0].data(), sums[1].data(), count))
          << world << " ranks, " << count << " elements";
    }
  }
}

TEST(Traffic, ReduceScatterOverRingTransfersHalfOfAnAllReduce) {
  ExpectAllOk(InRing(4, [](std::unique_ptr<Communicator>& ring) {
    constexpr int64_t kCount = 400000;
    std::vector<float> data(kCount, 1.0f);
    TETHYS_RETURN_IF_ERROR(ring->ReduceScatter(absl::MakeSpan(data)));
    const auto least = static_cast<double>(3 * kCount / 4 * sizeof(float));
    EXPECT_GE(ring->traffic().bytes_out, least);
    EXPECT_LE(ring->traffic().bytes_out, least * 1.01);
    return absl::OkStatus();
  }));
}

TEST(Traffic, AllReduceOverRingTransfersFewestPossibleBytes) {
  ExpectAllOk(InRing(4, [](std::unique_ptr<Communicator>& ring) {
    constexpr int64_t kCount = 400000;
    std::vector<float> data(kCount, 1.0f);
    TETHYS_RETURN_IF_ERROR(ring->AllReduce(absl::MakeSpan(data)));
    const auto least = static_cast<double>(2 * 3 * kCount / 4 * sizeof(float));
    EXPECT_GE(ring->traffic().bytes_out, least);
    EXPECT_LE(ring->traffic().bytes_out, least * 1.01);
    EXPECT_GE(ring->traffic().bytes_in, least);
    EXPECT_LE(ring->traffic().bytes_in, least * 1.01 + 16384);
    return absl::OkStatus();
  }));
}

class Allocations : public ::testing::TestWithParam<Medium> {};

TEST_P(Allocations, CollectivesAfterTheLargestOneAllocateNothing) {
  const RankBody body = [](std::unique_ptr<Communicator>& ring) {
    std::vector<float> data(100003, 1.0f);
    TETHYS_RETURN_IF_ERROR(ring->AllReduce(absl::MakeSpan(data)));
    TETHYS_RETURN_IF_ERROR(ring->AllReduce(absl::MakeSpan(data).subspan(0, 50)));
    const int64_t before = tethys::testing::ThreadAllocations();
    for (const int64_t count : {50, 99999, 2, 100003}) {
      TETHYS_RETURN_IF_ERROR(ring->AllReduce(absl::MakeSpan(data).subspan(0, count)));
    }
    TETHYS_RETURN_IF_ERROR(ring->ReduceScatter(absl::MakeSpan(data)));
    EXPECT_EQ(tethys::testing::ThreadAllocations(), before);
    return absl::OkStatus();
  };
  ExpectAllOk(InRing(3, body, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Media, Allocations, AllMedia(), NameOfMedium);

}  // namespace
}  // namespace tethys
