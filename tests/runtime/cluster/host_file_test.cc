#include "runtime/cluster/host_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The hosts as "HOSTxSLOTS" or "USER@HOSTxSLOTS", or the error.
std::string Parsed(const std::string& text) {
  const auto hosts = ParseHostFile(text, "hosts");
  if (!hosts.ok()) return std::string(hosts.status().message());
  return absl::StrJoin(*hosts, " ", [](std::string* out, const HostEntry& host) {
    absl::StrAppend(out, host.user.empty() ? "" : host.user + "@", host.host, "x", host.slots);
  });
}

HostEntry One(const std::string& line) { return ParseHostFile(line, "hosts").value()[0]; }

TEST(HostFileTest, HostLinesInTheFormatsOfOpenMpiHorovodAndDeepSpeedAreAccepted) {
  EXPECT_EQ(Parsed("# cluster\nnode1\n\nnode2 slots=4\r\nnode3 slots=2 max_slots=4 # big\n"),
            "node1x1 node2x4 node3x2");
  EXPECT_EQ(Parsed("alice@worker-1 slots=8\n10.0.0.7\tslots=2"), "alice@worker-1x8 10.0.0.7x2");
  EXPECT_EQ(Parsed("node1:4\nbob@n[2-3]:2\nfe80::1"), "node1x4 bob@n2x2 bob@n3x2 fe80::1x1");
}

TEST(HostFileTest, RangesInNamesAndAddressesAreExpanded) {
  EXPECT_EQ(Parsed("slave[1-3] slots=2"), "slave1x2 slave2x2 slave3x2");
  EXPECT_EQ(Parsed("n[08-10,2].lab"), "n08.labx1 n09.labx1 n10.labx1 n2.labx1");
  EXPECT_EQ(ParseHostFile("s[1-2] address=10.0.0.[11-12]", "hosts").value()[1].address, "10.0.0.12");
}

TEST(HostFileTest, AcceptsRolePortPriceKindAddressAndDevice) {
  const HostEntry host =
      One("master role=chief,worker port=2222 price=0.5 kind=big address=10.0.0.1 device=cuda");
  EXPECT_TRUE(host.roles.chief && host.roles.worker && !host.roles.ps);
  EXPECT_EQ(host.ssh_port, 2222);
  EXPECT_EQ(host.price_per_hour, 0.5);
  EXPECT_EQ(host.address, "10.0.0.1");
  EXPECT_FALSE(One("plain").roles.any_named());
  EXPECT_EQ(host.device, proto::Device::CUDA);
  EXPECT_EQ(One("plain device=cpu").device, proto::Device::CPU);
  EXPECT_FALSE(One("plain").price_per_hour.has_value());
  EXPECT_FALSE(One("plain").device.has_value());
}

TEST(HostFileTest, PriceGivenForOneHostAppliesToAllHostsOfTheSameKind) {
  const auto hosts = ParseHostFile("a kind=small\nb kind=small price=0.1\nc kind=big", "hosts").value();
  EXPECT_EQ(hosts[0].price_per_hour, 0.1);
  EXPECT_FALSE(hosts[2].price_per_hour.has_value());
}

struct BadLine {
  const char* text;
  const char* place;  // The place in the error, "LINE:COLUMN".
  const char* says;
};

TEST(HostFileTest, ErrorNamesLineAndColumnOfMalformedLine) {
  for (const BadLine& bad : std::vector<BadLine>{
           {"a\nb slots=0", "2:3", "slots is '0'; write a whole number from 1 to"},
           {"a slots=-1", "1:3", "slots is '-1'"},
           {"a slots=99999999999", "1:3", "slots is"},
           {"a slots= 4", "1:3", "slots has no value"},
           {"a slots=2 slots=3", "1:11", "slots is given twice"},
           {"a:3 slots=3", "1:1", "slots is given twice"},
           {"a:", "1:1", "slots has no value"},
           {"a:ssh", "1:1", "slots is 'ssh'"},
           {"a slot=2", "1:3", "there is no setting 'slot'; the settings are slots"},
           {"a 4", "1:3", "'4' is not understood"},
           {"  slots=4", "1:3", "a host must come first"},
           {"a role=master", "1:3", "'master' is no role"},
           {"a role=", "1:3", "role has no value"},
           {"a port=0", "1:3", "port is '0'"},
           {"a port=70000", "1:3", "port is '70000'"},
           {"a price=cheap", "1:3", "price is 'cheap'"},
           {"a price=-1", "1:3", "price is '-1'"},
           {"a price=inf", "1:3", "price is 'inf'"},
           {"a device=gpu", "1:3", "'gpu' is no device; write cpu or cuda"},
           {"a device=", "1:3", "device has no value"},
           {"a\nb\na slots=2", "3:1", "host a is named in line 1 already"},
           {"s[1-3]\ns2", "2:1", "host s2 is named in line 1 already"},
           {"s[1-", "1:1", "lacks the ]"},
           {"s[3-1]", "1:1", "ends before it begins"},
           {"s[1-x]", "1:1", "no number or range"},
           {"s[]", "1:1", "no number or range"},
           {"s[1-2][3-4]", "1:1", "more than one range"},
           {"s[0-999999999]", "1:1", "is longer than 4096 hosts"},
           {"s[1-3] address=10.0.0.[1-2]", "1:1", "3 hosts have 2 addresses"},
           {"a address=10.0.0.1:80", "1:3", "without a port"},
           {"a address=[fd00::1]:80", "1:3", "write an IPv4 or IPv6 address or a name, without a port"},
           {"a address=fe80::1%eth0", "1:3", "no address to listen on"},
           {"a address=fd00::1::2", "1:3", "no address to listen on"},
           {"[a:b:c]", "1:1", "an IPv6 address is written as fd00::7"},
           {"a:b:c", "1:1", "an IPv6 address is written as fd00::7"},
           {"a folder=scratch", "1:3", "write an absolute path"},
           {"a folder=/", "1:3", "write an absolute path"},
           {"a folder=~/x", "1:3", "write an absolute path"},
           {"-oProxyCommand=x", "1:1", "a host must come first"},
           {"-v", "1:1", "is no host name"},
           {"a;rm", "1:1", "is no host name"},
           {"$(x)@a", "1:1", "is no user name"},
           {"@a", "1:1", "is no user name"},
           {"\xEF\xBB\xBF"
            "a",
            "1:1", "byte 0xEF; write plain ASCII, without a byte order mark"},
           {"a \x1B[2J=1", "1:3", "byte 0x1B"},
           {"a kind=k price=1\nb kind=k price=2", "2:1", "kind k has price 1 in an earlier line and 2 here"},
       }) {
    EXPECT_THAT(Parsed(bad.text), StartsWith(absl::StrCat("hosts:", bad.place, ": "))) << bad.text;
    EXPECT_THAT(Parsed(bad.text), HasSubstr(bad.says)) << bad.text;
  }
}

TEST(HostFileTest, Ipv6AddressesAreAcceptedWithAndWithoutBrackets) {
  EXPECT_EQ(Parsed("[fd00::7]\n[fd00::8]:4\nme@fd00::9"), "fd00::7x1 fd00::8x4 me@fd00::9x1");
  EXPECT_EQ(Parsed("fd00::7\n[fd00::7]"),
            "hosts:2:1: host fd00::7 is named in line 1 already; name this host once, with slots=N");
  EXPECT_EQ(One("a address=[fd00::7]").address, "fd00::7");
  EXPECT_EQ(ParseHostFile("a[1-2] address=fd00::[7-8]", "hosts").value()[1].address, "fd00::8");
}

TEST(HostFileTest, FolderPathOfAHostIsReadUnchanged) {
  EXPECT_EQ(One("a folder=/scratch/me/it's").folder, "/scratch/me/it's");
  EXPECT_EQ(One("a").folder, "");
}

TEST(HostFileTest, NamesLongerThan255CharactersAreRefused) {
  const std::string longest(kMaxNameBytes, 'x');
  EXPECT_THAT(Parsed(longest), Not(HasSubstr("too long")));
  for (const char* line : {"$x", "a[1-2]$", "$x@a", "a kind=$x", "a[1-2] address=b[1-2]$"}) {
    EXPECT_THAT(Parsed(absl::StrReplaceAll(line, {{"$", longest}})),
                HasSubstr("too long: a name has at most 255 characters"))
        << line;
  }
}

TEST(HostFileTest, FileWithoutHostsAndMissingFileAreErrors) {
  EXPECT_THAT(Parsed("# nothing\n\n"), HasSubstr("no host is named"));
  EXPECT_THAT(ReadHostFile("/nowhere/hosts").status().message(), HasSubstr("/nowhere/hosts"));
}

}  // namespace
}  // namespace tethys
