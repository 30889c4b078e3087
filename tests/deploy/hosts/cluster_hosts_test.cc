#include "deploy/hosts/cluster_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kAnswer[] =
    "Welcome to slave1!\n"
    "tethys-probe home /home/a b\n"
    "tethys-probe architecture x86_64\n"
    "tethys-probe time 1795000000.25\n"
    "tethys-probe free 2048\n"
    "tethys-probe build yes\n";

TEST(HostProbeTest, ReadsMarkedLinesAndIgnoresOthers) {
  const absl::StatusOr<HostProbe> probe = ParseProbe(kAnswer);
  ASSERT_TRUE(probe.ok()) << probe.status();
  EXPECT_EQ(probe->home, "/home/a b");
  EXPECT_EQ(probe->architecture, "x86_64");
  EXPECT_EQ(probe->unix_seconds, 1795000000.25);
  EXPECT_EQ(probe->free_kib, 2048);
  EXPECT_TRUE(probe->has_build);
}

TEST(HostProbeTest, MissingFactsArePermitted) {
  const absl::StatusOr<HostProbe> probe = ParseProbe(
      "tethys-probe home /root\ntethys-probe architecture \ntethys-probe time \ntethys-probe free \n");
  ASSERT_TRUE(probe.ok()) << probe.status();
  EXPECT_FALSE(probe->has_build);
  EXPECT_TRUE(CheckArchitecture(*probe, "x86_64").ok());
  EXPECT_TRUE(CheckSpace(*probe, 1e6).ok());
}

TEST(HostProbeTest, OutputWithoutHomeFolderIsRefused) {
  for (const char* output :
       {"", "This account is not available.\n", "tethys-probe home \n", "tethys-probe home x\n"}) {
    EXPECT_FALSE(ParseProbe(output).ok()) << output;
  }
}

TEST(HostProbeTest, MalformedNumbersAreUnknown) {
  for (const char* number : {"many", "-5", "nan", "inf", "1e999"}) {
    const auto probe = ParseProbe(absl::StrCat("tethys-probe home /\ntethys-probe free ", number, "\n"));
    ASSERT_TRUE(probe.ok());
    EXPECT_EQ(probe->free_kib, -1) << number;
  }
}

TEST(HostProbeTest, RefusesAnotherArchitecture) {
  EXPECT_THAT(std::string(CheckArchitecture({.architecture = "aarch64"}, "x86_64").message()),
              AllOf(HasSubstr("is aarch64"), HasSubstr("for x86_64")));
}

TEST(HostProbeTest, RefusesAFullDisk) {
  const HostProbe probe = {.home = "/root", .free_kib = 1024};
  EXPECT_TRUE(CheckSpace(probe, 1024).ok());
  EXPECT_THAT(std::string(CheckSpace(probe, 10 * 1024).message()),
              HasSubstr("1 MiB are free at /root, and this build needs 10 MiB"));
}

}  // namespace
}  // namespace tethys
