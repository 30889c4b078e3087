#include "runtime/telemetry/proc_text.h"

#include <gtest/gtest.h>

#include <string>

namespace tethys {
namespace {

constexpr char kStat[] =
    "cpu  10132239 2056 2531913 12323008 26985 0 259512 3380 500 0\n"
    "cpu0 4932539 1040 1344630 6314463 3645 0 125312 1700 0 0\n"
    "cpu1 5199700 1016 1187283 6008545 23340 0 134200 1680 0 0\n"
    "intr 122 0 0\nctxt 1990473\nbtime 1386336211\n";

constexpr char kMeminfo[] =
    "MemTotal:        8152000 kB\nMemFree:          200000 kB\nMemAvailable:    6152000 kB\nBuffers: 1 kB\n";

constexpr char kNetDev[] =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls "
    "carrier compressed\n"
    "    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0\n"
    "  eth0:3816005308128 121132384 0 0 0 0 0 0 77 5 0 0 0 0 0 0\n"
    "veth-a: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n";

constexpr char kSelfIo[] =
    "rchar: 6976\nwchar: 12\nsyscr: 10\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\n"
    "cancelled_write_bytes: 0\n";

TEST(ParseStatTest, CountsCoresAndTheirBusyTime) {
  const auto cpu = ParseStat(kStat, 100);
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_EQ(cpu->cores, 2);
  EXPECT_EQ(cpu->busy_ns, (10132239 + 2056 + 2531913 + 0 + 259512) * (kSecond / 100));
}

TEST(ParseUsedMemoryTest, UsedMemoryIsTotalMinusAvailableMemory) {
  EXPECT_EQ(ParseUsedMemory(kMeminfo).value(), int64_t{2'000'000} * 1024);
}

TEST(ParseNetDevTest, NetworkBytesAreSummedOverAllInterfacesExceptTheLoopback) {
  const auto counts = ParseNetDev(kNetDev, false);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->in, 3816005308128 + 5);
  EXPECT_EQ(counts->out, 77 + 6);
}

TEST(ParseNetDevTest, NetworkBytesOfTheLoopbackAreCountedOnRequest) {
  EXPECT_EQ(ParseNetDev(kNetDev, true)->in, 1000 + 3816005308128 + 5);
  EXPECT_EQ(ParseNetDev(kNetDev, true)->out, 1000 + 77 + 6);
}

TEST(ParseSelfIoTest, OnlyBytesThatReachedTheDisksAreCountedAsReadOrWritten) {
  EXPECT_EQ(ParseSelfIo(kSelfIo)->in, 4096);
  EXPECT_EQ(ParseSelfIo(kSelfIo)->out, 8192);
}

TEST(ParseVmstatTest, ConvertsKibibytesToBytes) {
  const auto counts = ParseVmstat("pgfault 3\npgpgin 6\npgpgout 39\npgpgoutrun 1\n");
  EXPECT_EQ(counts->in, 6 * 1024);
  EXPECT_EQ(counts->out, 39 * 1024);
}

// A text that lacks a line or a column is refused.
TEST(ParseProcTextTest, RefusesMissingLinesAndColumns) {
  EXPECT_FALSE(ParseStat("", 100).ok());
  EXPECT_FALSE(ParseStat("cpu  1 2 3\n", 100).ok());
  EXPECT_FALSE(ParseStat("cpu  1 2 3 4 5 6 7\n", 100).ok()) << "no cores";
  EXPECT_FALSE(ParseUsedMemory("MemTotal: 8 kB\n").ok());
  EXPECT_FALSE(ParseUsedMemory("MemTotal:\nMemAvailable: 8 kB\n").ok());
  EXPECT_FALSE(ParseNetDev("Inter-| Receive\n", false).ok());
  EXPECT_FALSE(ParseNetDev("eth0: 1 2 3\n", false).ok());
  EXPECT_FALSE(ParseNetDev(": 1 2 3 4 5 6 7 8 9\n", false).ok());
  EXPECT_FALSE(ParseSelfIo("read_bytes: 1\n").ok());
  EXPECT_FALSE(ParseVmstat("pgpgin 1\n").ok());
}

TEST(ParseProcTextTest, RefusesInvalidNumbers) {
  EXPECT_FALSE(ParseStat("cpu  1 x 3 4 5 6 7\ncpu0 1\n", 100).ok());
  EXPECT_FALSE(ParseUsedMemory("MemTotal: -8 kB\nMemAvailable: 1 kB\n").ok());
  EXPECT_FALSE(ParseNetDev("eth0: 99999999999999999999 2 3 4 5 6 7 8 9\n", false).ok());
  EXPECT_FALSE(ParseSelfIo("read_bytes: 1.5\nwrite_bytes: 1\n").ok());
}

TEST(ParseProcTextTest, ErrorNamesTheFileAndTheLine) {
  const std::string message(ParseUsedMemory("MemTotal: 8 kB\n").status().message());
  EXPECT_EQ(message, "/proc/meminfo: there is no complete line 'MemAvailable:'");
}

}  // namespace
}  // namespace tethys
