#include "deploy/predict/host_uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/cluster/role_assignment.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Four hosts with given step times in milliseconds. Each host is a separate computer, and a link between two
// hosts has the rate of the slower host.
class HostUsesTest : public ::testing::Test {
 protected:
  static std::vector<HostEntry> Hosts(const std::string& text) {
    return ParseHostFile(text, "hosts").value();
  }

  static proto::Calibration Of(const std::vector<double>& milliseconds, const std::vector<double>& mbit,
                               const std::vector<double>& gigabytes = {8, 8, 8, 8},
                               const std::vector<double>& delays = {1e-4, 1e-4, 1e-4, 1e-4}) {
    proto::Calibration calibration;
    for (size_t i = 0; i < milliseconds.size(); ++i) {
      proto::ComputerCalibration& computer = *calibration.add_computer();
      computer.add_host(absl::StrCat("h", i));
      computer.set_cores(1);
      computer.set_memory_bytes(static_cast<int64_t>(gigabytes[i] * 1e9));
      for (const int batch : {32, 64, 128}) {
        proto::BatchTime& time = *computer.add_time();
        time.set_batch(batch);
        time.set_step(milliseconds[i] * 1e-3 * batch / 64);
      }
      for (size_t j = 0; j < milliseconds.size(); ++j) {
        if (i == j) continue;
        proto::LinkCalibration& link = *calibration.add_link();
        link.set_from(absl::StrCat("h", i));
        link.set_to(absl::StrCat("h", j));
        link.set_delay(std::max(delays[i], delays[j]));
        link.set_bytes_per_second(std::min(mbit[i], mbit[j]) * 1e6 / 8);
      }
    }
    return calibration;
  }

  static std::vector<std::string> Texts(const proto::Calibration& calibration,
                                        const std::string& file = "h0\nh1\nh2\nh3\n") {
    std::vector<std::string> texts;
    for (const HostUse& use : UsesOfHosts(Hosts(file), calibration)) texts.push_back(use.text);
    return texts;
  }
};

TEST_F(HostUsesTest, HostsOfNearlyEqualSpeedAreUsedAsTheHostFileSays) {
  EXPECT_THAT(Texts(Of({5, 5.5, 4.8, 5}, {940, 930, 900, 941})), ElementsAre(""));
  EXPECT_THAT(UsesOfHosts(Hosts("h0\n"), {}), SizeIs(1));
}

TEST_F(HostUsesTest, HostUnlikeTheOthersIsLeftOutOrHasOneRole) {
  const auto odd = ElementsAre("", "without h2", "h2 runs only servers", "h2 runs only workers");
  EXPECT_THAT(Texts(Of({5, 5, 25, 5}, {940, 940, 940, 940})), odd) << "speed";
  EXPECT_THAT(Texts(Of({5, 5, 5, 5}, {940, 940, 100, 940})), odd) << "link";
  EXPECT_THAT(Texts(Of({5, 5, 5, 5}, {940, 940, 940, 940}, {8, 8, 1, 8})), odd) << "memory";
  EXPECT_THAT(Texts(Of({5, 5, 5, 5}, {940, 940, 940, 940}, {8, 8, 8, 8}, {1e-4, 1e-4, 0.02, 1e-4})), odd)
      << "delay";
  proto::Calibration cores = Of({5, 5, 5, 5}, {940, 940, 940, 940});
  for (int i = 0; i < 4; ++i) cores.mutable_computer(i)->set_cores(i == 2 ? 1 : 4);
  EXPECT_THAT(Texts(cores, "h[0-3] slots=4\n"), odd) << "cores";
}

TEST_F(HostUsesTest, SlowHostsAreLeftOutOrHaveOneRoleBesideOneFastHost) {
  EXPECT_THAT(Texts(Of({25, 25, 5, 25}, {940, 940, 940, 940})),
              ElementsAre("", "without h1 and h3 and h0", "h1 and h3 and h0 run only servers",
                          "h1 and h3 and h0 run only workers"));
}

TEST_F(HostUsesTest, NumberOfHostUsesIsLimited) {
  EXPECT_THAT(Texts(Of({5, 10, 20, 40}, {940, 500, 200, 90})), SizeIs(testing::Le(kMostHostUses)));
}

TEST_F(HostUsesTest, HostFileListsExactlyTheProcessesOfEachHost) {
  const std::vector<HostEntry> hosts =
      Hosts("a@h0 address=10.0.0.1 price=0.5\nh1\nh2 port=23 folder=/x\nh3 kind=big\n");
  const std::vector<HostUse> uses = UsesOfHosts(hosts, Of({5, 5, 25, 5}, {940, 940, 940, 940}));
  const std::vector<HostEntry> lines = HostsFor(hosts, uses[2], 1, 2).value();
  EXPECT_EQ(HostFileText(lines),
            "a@h0 role=chief,ps address=10.0.0.1 price=0.5\nh1 role=worker\nh2 role=ps port=23 folder=/x\n");
  const std::vector<HostEntry> read = Hosts(HostFileText(lines));
  const RoleAssignment roles = AssignRoles(read, 1, 2).value();
  EXPECT_EQ(read[roles.workers[0]].host, "h1");
  EXPECT_EQ(roles.chief, 0);
  // The chief's host stays in the file even if no other process runs there.
  EXPECT_EQ(HostFileText(HostsFor(hosts, uses[1], 1, 0).value()),
            "a@h0 role=chief address=10.0.0.1 price=0.5\nh1 role=worker\n");
  EXPECT_FALSE(HostsFor(hosts, uses[1], 3, 1).ok()) << "three hosts have slots for three";
}

TEST_F(HostUsesTest, RolesOfTheFileAreKept) {
  const std::vector<HostEntry> hosts = Hosts("h0 role=chief\nh1 role=worker\nh2 role=worker\nh3 role=ps\n");
  for (const HostUse& use : UsesOfHosts(hosts, Of({5, 5, 25, 5}, {940, 940, 940, 940}))) {
    if (use.text.empty()) continue;
    EXPECT_THAT(use.servers, ElementsAre(3)) << use.text;
    EXPECT_THAT(use.workers, ::testing::Each(::testing::AnyOf(1, 2))) << use.text;
  }
}

TEST_F(HostUsesTest, SwappingEquivalentHostsGivesTheSameHostUse) {
  const std::vector<int> classes = {0, 0, 1, 0};
  EXPECT_EQ(WorkOfClasses(classes, {0, 2}, {1}), WorkOfClasses(classes, {3, 2}, {0}));
  EXPECT_NE(WorkOfClasses(classes, {0, 2}, {1}), WorkOfClasses(classes, {0, 1}, {2}));
}

}  // namespace
}  // namespace tethys
