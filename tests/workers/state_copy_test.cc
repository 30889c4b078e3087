// Tests the copy of a state among ranks that are threads, over TCP and in shared memory.
#include "workers/state_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/collectives/forwarding_communicator.h"
#include "tests/collectives/ring_fixture.h"

namespace tethys {
namespace {

constexpr int64_t kElements = 5 * 1024 * 1024;  // The state is sent in more than one chunk.

std::vector<float> Values(int64_t part) {
  std::vector<float> values(kElements);
  std::iota(values.begin(), values.end(), static_cast<float>(part) * 0.5f);
  return values;
}

absl::Status ReadValues(int64_t part, absl::FunctionRef<absl::Status(absl::Span<const float>)> use) {
  return use(Values(part));
}

absl::Status ReadNothing(int64_t, absl::FunctionRef<absl::Status(absl::Span<const float>)>) {
  return absl::InternalError("only the source is read");
}

class StateCopyTest : public ::testing::TestWithParam<Medium> {
 protected:
  StateCopy copy_ = {.step = 7, .source = 1, .behind = {0, 3}, .parts = 2, .elements = kElements};
};

INSTANTIATE_TEST_SUITE_P(Media, StateCopyTest,
                         ::testing::Values(Medium::kTcp, Medium::kSharedMemory, Medium::kTwoHosts),
                         [](const auto& medium) { return MediumName(medium.param); });

TEST_P(StateCopyTest, RanksThatAreBehindReceiveAllPartsOfTheState) {
  ExpectAllOk(InRing(
      4,
      [&](std::unique_ptr<Communicator>& group) -> absl::Status {
        const int rank = group->rank();
        StagedState staged;
        TETHYS_RETURN_IF_ERROR(CopyState(
            *group, copy_, rank == 1 ? ReadPart(ReadValues) : ReadPart(ReadNothing), nullptr, staged));
        EXPECT_EQ(staged.parts.size(), copy_.is_behind(rank) ? 2 : 0) << rank;
        for (size_t part = 0; part < staged.parts.size(); ++part) {
          EXPECT_EQ(staged.parts[part].span(), absl::MakeConstSpan(Values(static_cast<int64_t>(part))))
              << rank;
        }
        return group->Barrier();
      },
      GetParam()));
}

TEST_P(StateCopyTest, MeanStatisticsAreOverTheRanksThatHaveStatistics) {
  copy_.elements = 3;
  copy_.statistics = 2;
  const std::vector<std::vector<float>> own = {{}, {1, 10}, {5, 20}, {6, 30}};
  const auto read = [](int64_t, absl::FunctionRef<absl::Status(absl::Span<const float>)> use) {
    return use(std::vector<float>{1, 2, 3});
  };
  ExpectAllOk(InRing(
      4,
      [&](std::unique_ptr<Communicator>& group) -> absl::Status {
        StagedState staged;
        const std::vector<float>& mine = own[group->rank()];
        TETHYS_RETURN_IF_ERROR(CopyState(*group, copy_, read, mine.empty() ? nullptr : &mine, staged));
        EXPECT_EQ(staged.mean_statistics, std::vector<float>({4, 20}));
        return absl::OkStatus();
      },
      GetParam()));
}

// Changes one bit of each message that it receives.
class Corrupting final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  absl::Status Receive(int peer, absl::Span<char> data) override {
    TETHYS_RETURN_IF_ERROR(ForwardingCommunicator::Receive(peer, data));
    data[data.size() / 2] ^= 1;
    return absl::OkStatus();
  }
};

TEST_P(StateCopyTest, BitThatFlipsDuringTheCopyIsDataLoss) {
  const std::vector<absl::Status> answers = InRing(
      4,
      [&](std::unique_ptr<Communicator>& group) {
        Corrupting corrupting(*group);
        StagedState staged;
        return CopyState(group->rank() == 3 ? static_cast<Communicator&>(corrupting) : *group, copy_,
                         ReadValues, nullptr, staged);
      },
      GetParam());
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(answers[rank].ok()) << answers[rank];
  EXPECT_TRUE(absl::IsDataLoss(answers[3])) << answers[3];
}

TEST_P(StateCopyTest, InterruptedSourceEndsTheCopyOnAllRanks) {
  const std::vector<absl::Status> answers = InRing(
      4,
      [&](std::unique_ptr<Communicator>& group) {
        StagedState staged;
        const auto read = [&](int64_t part, absl::FunctionRef<absl::Status(absl::Span<const float>)> use) {
          if (part == 1) group->Interrupt(absl::AbortedError("halted"));
          return ReadValues(part, use);
        };
        return CopyState(*group, copy_, read, nullptr, staged);
      },
      GetParam());
  EXPECT_TRUE(absl::IsAborted(answers[1])) << answers[1];
  for (const int rank : {0, 2, 3}) EXPECT_TRUE(absl::IsUnavailable(answers[rank])) << answers[rank];
}

TEST(StateCopyRules, CopyWithInvalidSourceOrReceivingRanksIsRefused) {
  ExpectAllOk(InRing(2, [](std::unique_ptr<Communicator>& group) {
    StagedState staged;
    for (const auto& [source, behind] :
         std::vector<std::pair<int, std::vector<int>>>{{2, {0}}, {-1, {0}}, {0, {2}}, {0, {-1}}, {1, {1}}}) {
      const StateCopy copy{.source = source, .behind = behind, .elements = 1};
      EXPECT_TRUE(absl::IsInternal(CopyState(*group, copy, ReadNothing, nullptr, staged)));
    }
    return absl::OkStatus();
  }));
}

}  // namespace
}  // namespace tethys
