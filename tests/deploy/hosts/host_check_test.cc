#include "deploy/hosts/host_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(RoundsOfPairsTest, EachPairOccursOnceAndNoHostTwiceInARound) {
  for (int count = 2; count <= 12; ++count) {
    std::set<std::pair<int, int>> pairs;
    for (const auto& round : RoundsOfPairs(count, 100)) {
      std::set<int> busy;
      for (const auto& [one, other] : round) {
        EXPECT_TRUE(busy.insert(one).second && busy.insert(other).second) << count;
        EXPECT_TRUE(pairs.insert(std::minmax(one, other)).second) << count;
      }
    }
    EXPECT_EQ(pairs.size(), count * (count - 1) / 2);
  }
}

TEST(RoundsOfPairsTest, NumberOfRoundsIsAtMostTheLimit) {
  EXPECT_THAT(RoundsOfPairs(0, 9), IsEmpty());
  for (const auto& round : RoundsOfPairs(1, 9)) EXPECT_THAT(round, IsEmpty());
  EXPECT_EQ(RoundsOfPairs(100, 9).size(), 9);
}

ClusterCheck Three() {
  ClusterCheck check{.architecture = "x86_64"};
  for (const char* name : {"master", "slave1", "slave2"}) {
    CheckedHost host{.host = name, .address = "10.0.0.1"};
    host.facts.architecture = "x86_64";
    host.clock = ClockOffset{.seconds = 0.0002, .error = 0.0004};
    check.hosts.push_back(host);
  }
  check.hosts[0].here = true;
  return check;
}

TEST(ClusterCheckTextTest, ShowsHostsAndLinksByNumber) {
  ClusterCheck check = Three();
  check.hosts[1].facts.cores = 8;
  check.hosts[1].facts.gpus = {"NVIDIA H200", "NVIDIA H200"};
  check.links.push_back({0, 2, LinkSpeed{.round_trip = 120e-6, .there = 117.7e6, .back = 11.8e6}});
  const std::string text = ClusterCheckText(check);
  EXPECT_THAT(text, AllOf(HasSubstr("slave1"), HasSubstr("2 × NVIDIA H200"), HasSubstr("+0.2 ± 0.4 ms"),
                          HasSubstr("reference")));
  EXPECT_THAT(text, AllOf(HasSubstr("1  master        -  942\n"), HasSubstr("3  slave2  94.4  -\n")));
  EXPECT_THAT(text, HasSubstr("1  master       -  120\n"));
}

TEST(ClusterCheckTextTest, ListsProblemsAndRemedies) {
  ClusterCheck check = Three();
  check.hosts[0].clock = ClockOffset{.seconds = -6, .error = 0.5};
  check.hosts[0].links = absl::UnavailableError("no answer");
  check.hosts[1].reached = absl::UnavailableError("ssh: no route");
  check.hosts[2].facts.architecture = "aarch64";
  check.links.push_back({2, 0, absl::DeadlineExceededError("too slow")});
  EXPECT_THAT(
      ClusterCheckText(check),
      AllOf(
          HasSubstr(
              "master: the clock of this host is 6.0 s behind the launcher's clock (error at most 0.5 s), "),
          HasSubstr("master: the links of this host were not measured: no answer\n"),
          HasSubstr("slave1: not reached: ssh: no route"),
          HasSubstr("slave2: the architecture of this host is aarch64"),
          HasSubstr("slave2 to master: too slow\n"), Not(HasSubstr("Bandwidth"))));
}

TEST(ClusterCheckTextTest, HostsWithoutTheBuildAreListedInOneSharedNote) {
  ClusterCheck check = Three();
  for (const int host : {1, 2}) {
    check.hosts[host].lacks_build = true;
    check.hosts[host].links = absl::NotFoundError("not there");
  }
  EXPECT_THAT(ClusterCheckText(check),
              HasSubstr("\nslave1, slave2: their links were not measured, because this build is not "
                        "installed there yet: install it with --install, or by starting a job there\n"));
}

TEST(ClusterCheckTextTest, MissingAddressOfReachedHostIsReported) {
  ClusterCheck check = Three();
  check.hosts[1].address = "";
  check.hosts[1].links = absl::NotFoundError("slave1: no address is known");
  for (const bool lacks : {false, true}) {
    check.hosts[1].lacks_build = lacks;
    EXPECT_THAT(
        ClusterCheckText(check),
        HasSubstr("\nslave1: the links of this host were not measured: slave1: no address is known\n"));
  }
}

TEST(ClusterCheckTextTest, UnreachedHostWithoutAddressIsReportedOnlyAsUnreached) {
  ClusterCheck check = Three();
  check.hosts[1].reached = absl::UnavailableError("ssh: cannot resolve slave1");
  check.hosts[1].address = "";
  check.hosts[1].links = absl::NotFoundError("no address is known");
  const std::string text = ClusterCheckText(check);
  EXPECT_THAT(text, AllOf(HasSubstr("slave1: not reached: ssh: cannot resolve slave1"),
                          Not(HasSubstr("no address is known"))));
}

TEST(ClusterCheckTextTest, MissingAddressOfUnreachedHostIsExplained) {
  ClusterCheck check = Three();
  check.hosts[1].reached = absl::UnavailableError("ssh: refused");
  check.hosts[1].links = absl::UnavailableError("it is not reached");
  EXPECT_THAT(ClusterCheckText(check), Not(HasSubstr("it is not reached\n")));
  check.hosts[1].address = "";
  check.hosts[1].links = absl::InvalidArgumentError("slave1 is 127.0.0.1 here: give its address");
  EXPECT_THAT(ClusterCheckText(check), HasSubstr("; slave1 is 127.0.0.1 here: give its address\n"));
}

TEST(ClusterCheckTextTest, ClockOffsetWithinErrorIsNotReported) {
  ClusterCheck check = Three();
  check.hosts[1].clock = ClockOffset{.seconds = 7, .error = 3};
  EXPECT_THAT(ClusterCheckText(check), Not(HasSubstr("NTP")));
}

TEST(ClusterCheckTextTest, ManyFailedLinksAreCounted) {
  ClusterCheck check = Three();
  for (int i = 0; i < 12; ++i) check.links.push_back({0, 1, absl::UnavailableError("refused")});
  EXPECT_THAT(ClusterCheckText(check), HasSubstr("and 2 more links failed\n"));
}

}  // namespace
}  // namespace tethys
