#include "deploy/hosts/host_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns "ADDRESS" or "CODE: MESSAGE" for each host. Each element of `addresses` is the name of a host and
// also its address=.
std::vector<std::string> Found(const std::vector<std::string>& addresses) {
  std::vector<ClusterHost> hosts;
  for (const std::string& address : addresses) {
    hosts.push_back({.target = {.host = "host-" + address},
                     .address = address,
                     .origin = absl::StrCat("hosts:", hosts.size() + 1)});
  }
  std::vector<std::string> found;
  for (const absl::StatusOr<std::string>& each : FindAddresses(hosts, "", "")) {
    found.push_back(each.ok() ? *each : absl::StrCat(StatusText(each.status())));
  }
  return found;
}

TEST(FindAddressesTest, AddressesAreAcceptedIfAllAreOfOneFamily) {
  EXPECT_THAT(Found({"10.0.0.1", "10.0.0.2"}), ::testing::ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(Found({"fd00::1", "fd00:0::2"}), ::testing::ElementsAre("fd00::1", "fd00::2"));
}

TEST(FindAddressesTest, MixedFamiliesAreRefusedAndAHostOfEachIsNamed) {
  for (const std::string& error : Found({"10.0.0.1", "fd00::2", "10.0.0.3"})) {
    EXPECT_THAT(error, AllOf(HasSubstr("host-fd00::2 has no IPv4 address"),
                             HasSubstr("host-10.0.0.1 no IPv6 address")));
  }
}

TEST(FindAddressesTest, LoopbackAddressIsRefusedUnlessThereIsOneHost) {
  for (const char* address : {"127.0.0.1", "127.0.1.1"}) {
    EXPECT_THAT(Found({address}), ::testing::ElementsAre(address));
    EXPECT_THAT(Found({address, "10.0.0.2"})[0],
                AllOf(HasSubstr("at which other machines cannot reach this host"), HasSubstr("hosts:1")));
  }
  EXPECT_THAT(Found({"::1", "fd00::1"})[0], HasSubstr("at which other machines cannot reach this host"));
}

TEST(FindAddressesTest, LinkLocalAddressIsRefused) {
  EXPECT_THAT(Found({"fe80::1"})[0], HasSubstr("valid on one link only"));
}

TEST(FindAddressesTest, HostNameWithoutAnAddressDoesNotAffectOtherHosts) {
  const std::vector<std::string> found = Found({"no-such-host.invalid", "10.0.0.2"});
  EXPECT_THAT(found[0],
              AllOf(HasSubstr("no address is known for no-such-host.invalid"), HasSubstr("hosts:1")));
  EXPECT_EQ(found[1], "10.0.0.2");
}

TEST(LoopbackNameTest, TrueForNamesAndAddressesOfThisMachineOnly) {
  for (const char* name : {"127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1", "localhost"})
    EXPECT_TRUE(IsLoopbackName(name)) << name;
  for (const char* name : {"10.0.0.1", "fd00::1", "no-such-host.invalid", "1270.0.0.1"})
    EXPECT_FALSE(IsLoopbackName(name)) << name;
  for (const char* name : {"127.0.0.1", "::1", "localhost", "10.0.0.1"})
    EXPECT_FALSE(IsOwnNameForLoopback(name)) << name;
}

TEST(ListenAddressTest, JobOnOneMachineListensOnLoopback) {
  EXPECT_EQ(*ListenAddress("", {"127.0.0.1"}), "127.0.0.1");
  EXPECT_EQ(*ListenAddress("::1", {"::1"}), "::1");
  EXPECT_EQ(*ListenAddress("localhost", {"localhost", "127.0.1.1"}), "localhost");
}

TEST(ListenAddressTest, ReachableAddressIsKept) {
  EXPECT_EQ(*ListenAddress("10.1.2.3", {"10.1.2.4"}), "10.1.2.3");
  EXPECT_EQ(*ListenAddress("node7", {"node8"}), "node7");
}

TEST(ListenAddressTest, NumericLoopbackIsRefusedIfOtherMachinesTakePart) {
  const absl::Status refused = ListenAddress("127.0.0.1", {"192.0.2.200"}).status();
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("127.0.0.1 resolves to this machine only"), HasSubstr("192.0.2.200")));
}

TEST(ListenAddressTest, DefaultAddressIsTheOneOnTheRouteToAnotherMachine) {
  for (const std::string& own : OwnAddresses()) {
    if (IsLoopbackName(own)) continue;
    EXPECT_EQ(*ListenAddress("", {own}), own);
    EXPECT_EQ(*ListenAddress("127.0.0.1", {own}), "127.0.0.1") << "the other process is on this machine";
  }
}

}  // namespace
}  // namespace tethys
