// Tests which ranks exchange gradients through their devices (as NCCL does), and how they get the device
// group's id.
#include "collectives/stream_exchange.h"

#include <string>

#include "gmock/gmock.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/testing/late_device.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// A member of a device group; its calls do nothing.
class Member final : public StreamCommunicator {
 public:
  explicit Member(const StreamGroup& group) : group_(group) {}
  int rank() const override { return group_.rank; }
  int world_size() const override { return group_.world_size; }
  absl::Status AllReduce(Stream&, float*, int64_t) override { return absl::OkStatus(); }
  absl::Status AllReduce(Stream&, Bfloat16*, int64_t) override { return absl::OkStatus(); }
  absl::Status ReduceScatter(Stream&, float*, int64_t) override { return absl::OkStatus(); }
  absl::Status AllGather(Stream&, float*, int64_t) override { return absl::OkStatus(); }
  absl::Status Send(Stream&, int, const float*, int64_t) override { return absl::OkStatus(); }
  absl::Status Receive(Stream&, int, float*, int64_t) override { return absl::OkStatus(); }
  absl::Status Check() override { return absl::OkStatus(); }
  absl::Status Abort() override { return absl::OkStatus(); }
  std::string Describe() const override { return group_.id; }

 private:
  const StreamGroup group_;
};

// The CPU device if `identity` is "cpu", otherwise a late device (a simulated asynchronous device) with this
// identity.
std::unique_ptr<Device> DeviceCalled(const std::string& identity) {
  if (identity == "cpu") return CreateCpuDevice(1).value();
  return testing::CreateLateDevice({.identity = identity, .join = [](const StreamGroup& group) {
                                      return std::make_unique<Member>(group);
                                    }});
}

// The result of CreateStreamExchange on each rank r, whose device is devices[r].
std::vector<absl::StatusOr<StreamExchange>> Exchanges(const std::vector<std::string>& devices,
                                                      const std::string& obstacle = "") {
  std::vector<absl::StatusOr<StreamExchange>> exchanges(devices.size());
  InRing(static_cast<int>(devices.size()), [&](std::unique_ptr<Communicator>& all) {
    const auto device = DeviceCalled(devices[all->rank()]);
    exchanges[all->rank()] = CreateStreamExchange(
        *all, *device, {.timeout = 10 * kSecond, .clock = &TestClock(), .obstacle = obstacle});
    return exchanges[all->rank()].status();
  });
  return exchanges;
}

TEST(StreamExchange, RanksWithTheirOwnDevicesJoinTheGroupOfRankZero) {
  const auto exchanges = Exchanges({"a", "b", "c"});
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(exchanges[rank].ok()) << exchanges[rank].status();
    ASSERT_NE(exchanges[rank]->communicator, nullptr) << exchanges[rank]->reason;
    EXPECT_EQ(exchanges[rank]->communicator->rank(), rank);
    EXPECT_EQ(exchanges[rank]->communicator->world_size(), 3);
    EXPECT_EQ(exchanges[rank]->communicator->Describe(), "group 1 of a");
  }
}

TEST(StreamExchange, RanksThatShareADeviceExchangeOnTheHost) {
  for (const auto& exchange : Exchanges({"a", "b", "a"})) {
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    EXPECT_EQ(exchange->communicator, nullptr);
    EXPECT_EQ(exchange->reason, "ranks 0 and 2 share a device");
  }
}

TEST(StreamExchange, CallersObstacleLeavesTheExchangeToTheHost) {
  for (const auto& exchange : Exchanges({"a", "b"}, "a lost worker is on the CPU")) {
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    EXPECT_EQ(exchange->communicator, nullptr);
    EXPECT_EQ(exchange->reason, "a lost worker is on the CPU");
  }
}

TEST(StreamExchange, DeviceWithoutAllReduceExchangesOnTheHost) {
  for (const auto& exchange : Exchanges({"a", ""})) {
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    EXPECT_EQ(exchange->communicator, nullptr);
    EXPECT_EQ(exchange->reason, "rank 1 on a device without an all-reduce of its own");
  }
}

TEST(StreamExchange, ReasonForExchangeOnTheHostNamesRanksOnTheCpu) {
  for (const auto& exchange : Exchanges({"cpu", "a", "cpu", "a"})) {
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    EXPECT_EQ(exchange->communicator, nullptr);
    EXPECT_EQ(exchange->reason, "ranks 0, 2 on the CPU");
  }
}

TEST(StreamExchange, RankThatCannotCreateAGroupFailsEveryRank) {
  const auto exchanges = Exchanges({std::string(300, 'a'), "b"});  // The group's id is too long to send.
  EXPECT_THAT(std::string(exchanges[0].status().message()),
              HasSubstr("rank 0: the id of a group of devices has 311 bytes"));
  EXPECT_THAT(std::string(exchanges[1].status().message()), HasSubstr("rank 0 could not create the group"));
}

}  // namespace
}  // namespace tethys
