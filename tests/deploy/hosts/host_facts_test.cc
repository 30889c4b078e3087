#include "deploy/hosts/host_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cmath>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Nanoseconds kNow = 1'795'000'000 * kSecond;

Answer TimeAnswer(const std::string& time, Nanoseconds asked, Nanoseconds heard) {
  return {.lines = {"time " + time}, .asked = kNow + asked, .heard = kNow + heard};
}

TEST(HostFactsTest, ReadsEveryFact) {
  const HostFacts facts =
      ParseFacts({"folder /home/a b", "architecture x86_64", "cores 8", "memory 2048", "available 1024",
                  "disk 512", "gpu NVIDIA A", "gpu NVIDIA B", "program /home/a b/tethys"});
  EXPECT_EQ(facts.folder, "/home/a b");
  EXPECT_EQ(facts.architecture, "x86_64");
  EXPECT_EQ(facts.cores, 8);
  EXPECT_EQ(facts.memory_bytes, 2 << 20);
  EXPECT_EQ(facts.memory_free_bytes, 1 << 20);
  EXPECT_EQ(facts.disk_free_bytes, 512 << 10);
  EXPECT_THAT(facts.gpus, ElementsAre("NVIDIA A", "NVIDIA B"));
  EXPECT_EQ(facts.program, "/home/a b/tethys");
}

TEST(HostFactsTest, ControlGroupLimitsLowerTheMachinesCoresAndMemory) {
  const HostFacts facts = ParseFacts({"cores 8", "memory 2048", "available 1024", "limit 1500000 1000000",
                                      "limit max 7", "limit 9223372036854771712 0", "quota 150000 100000",
                                      "quota -1 100000", "quota max 100000"});
  EXPECT_EQ(facts.cores, 2);
  EXPECT_EQ(facts.memory_bytes, 1500000);
  EXPECT_EQ(facts.memory_free_bytes, 500000);
}

TEST(HostFactsTest, MalformedLimitsAreIgnored) {
  for (const char* line :
       {"limit", "limit 5", "limit 5 x", "limit -5 1", "quota 0 0", "quota 5 0", "quota 1e9 1"}) {
    const HostFacts facts = ParseFacts({"cores 8", "memory 2048", "available 1024", line});
    EXPECT_EQ(facts.cores, 8) << line;
    EXPECT_EQ(facts.memory_bytes, 2 << 20) << line;
    EXPECT_EQ(facts.memory_free_bytes, 1 << 20) << line;
  }
  EXPECT_EQ(ParseFacts({"limit 5 1"}).memory_bytes, -1);
}

TEST(HostFactsTest, MalformedNumbersAreUnknown) {
  for (const char* value : {"", "x", "-1", "1.5", "99999999999999999999", "9000000000000000"}) {
    const std::string text = value;
    const HostFacts facts =
        ParseFacts({"cores " + text, "memory " + text, "disk " + text, "program " + text});
    EXPECT_EQ(facts.cores, 0) << text;
    EXPECT_EQ(facts.memory_bytes, -1) << text;
    EXPECT_EQ(facts.disk_free_bytes, -1) << text;
    EXPECT_EQ(facts.program, "") << text;
  }
}

TEST(HostFactsTest, OwnAddressesAreNumericAndComplete) {
  EXPECT_THAT(ParseFacts({"address 10.0.0.2", "address 10.0.0.2", "address fd000000000000000000000000000002",
                          "address fe8000000000000000fc00fffe000001", "address x", "address", "address zz0"})
                  .addresses,
              ElementsAre("10.0.0.2", "fd00::2"));
  std::vector<std::string> many(500, "address 10.0.0.2");
  EXPECT_THAT(ParseFacts(many).addresses, IsEmpty()) << "there may be more";
}

TEST(HostFactsTest, FolderThatCannotBeWrittenIsRefused) {
  EXPECT_TRUE(CheckWritable(ParseFacts({"folder /a", "writable yes"}), "hosts:3").ok());
  EXPECT_TRUE(CheckWritable(ParseFacts({"folder /a"}), "hosts:3").ok()) << "unknown";
  EXPECT_THAT(std::string(CheckWritable(ParseFacts({"folder /a", "writable no"}), "hosts:3").message()),
              AllOf(HasSubstr("/a cannot be written"), HasSubstr("folder=PATH in hosts:3")));
}

TEST(HostFactsTest, HostWithoutAHomeFolderIsRefused) {
  EXPECT_TRUE(CheckFolder(ParseFacts({"folder /"})).ok());
  for (const char* line : {"", "This account is not available.", "folder ", "folder x"}) {
    const absl::Status status = CheckFolder(ParseFacts({line}));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << line;
    EXPECT_THAT(std::string(status.message()), HasSubstr("home folder"));
  }
}

TEST(HostFactsTest, HostWithUnknownFactsPassesTheChecks) {
  EXPECT_TRUE(CheckArchitecture({}, "x86_64").ok());
  EXPECT_TRUE(CheckSpace({}, 1 << 30).ok());
}

TEST(HostFactsTest, AnotherArchitectureIsRefused) {
  EXPECT_THAT(std::string(CheckArchitecture({.architecture = "aarch64"}, "x86_64").message()),
              AllOf(HasSubstr("is aarch64"), HasSubstr("for x86_64")));
}

TEST(HostFactsTest, FullDiskIsRefused) {
  const HostFacts facts = {.folder = "/root", .disk_free_bytes = 1 << 20};
  EXPECT_TRUE(CheckSpace(facts, 1 << 20).ok());
  EXPECT_THAT(std::string(CheckSpace(facts, (10 << 20) - 1).message()),
              HasSubstr("1 MiB are free at /root, and this build needs 10 MiB"));
}

TEST(ClockOffsetTest, AnswerWithTheShortestRoundTripIsUsed) {
  const std::optional<ClockOffset> offset = FindClockOffset({
      TimeAnswer("1795000003.000000000", 0, 2 * kSecond),
      TimeAnswer("1795000005.001000000", 3 * kSecond, 3 * kSecond + 2 * kMillisecond),
      TimeAnswer("1795000009.000000000", 6 * kSecond, 7 * kSecond),
  });
  ASSERT_TRUE(offset.has_value());
  EXPECT_NEAR(offset->seconds, 2, 1e-6);
  EXPECT_NEAR(offset->error, 1e-3, 1e-6);
}

TEST(ClockOffsetTest, ClockOfWholeSecondsHasErrorOfHalfSecond) {
  for (const char* time : {"1795000002", "1795000002.", "1795000002.N"}) {
    const std::optional<ClockOffset> offset = FindClockOffset({TimeAnswer(time, 0, 0)});
    ASSERT_TRUE(offset.has_value()) << time;
    EXPECT_NEAR(offset->seconds, 2.5, 1e-6);
    EXPECT_NEAR(offset->error, 0.5, 1e-6);
  }
}

TEST(ClockOffsetTest, AnswersWithoutTimeGiveNoOffset) {
  Answer failed = TimeAnswer("1795000002.0", 0, 0);
  failed.status = absl::UnavailableError("gone");
  EXPECT_FALSE(FindClockOffset({failed, TimeAnswer("", 0, 0), TimeAnswer("-3.0", 0, 0),
                                TimeAnswer("99999999999.0", 0, 0), TimeAnswer("1795000002.0", 1, 0)})
                   .has_value());
}

TEST(FactsScriptTest, RelativeHomeFolderCountsAsUnknown) {
  signal(SIGPIPE, SIG_IGN);
  const testing::TempDirectory directory;
  for (const char* home : {"", "nowhere", "no/where"}) {
    std::vector<std::unique_ptr<Conversation>> here;
    here.push_back(std::make_unique<Conversation>(std::vector<std::string>(),
                                                  absl::StrCat("HOME=", home, "\n", FactsScript("no-build")),
                                                  "", directory.Path("errors")));
    const Answer answer = AskAll(here, {"facts"}, 60 * kSecond)[0];
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(ParseFacts(answer.lines).folder, "") << home;
  }
}

// Runs the real script on this machine, but with a fake nvidia-smi, since a test machine may lack the GPU
// driver's program.
TEST(FactsScriptTest, ReportsFactsAndTimeOfThisMachine) {
  signal(SIGPIPE, SIG_IGN);
  const testing::TempDirectory directory;
  const std::string gpu_tool = directory.Write("nvidia-smi", "#!/bin/sh\necho NVIDIA H200\n");
  ASSERT_EQ(chmod(gpu_tool.c_str(), S_IRWXU), 0);
  const std::string script =
      absl::StrCat("PATH='", directory.path(), "':$PATH\n", FactsScript("no-such-build"));
  std::vector<std::unique_ptr<Conversation>> here;
  here.push_back(
      std::make_unique<Conversation>(std::vector<std::string>(), script, "", directory.Path("errors")));
  const Answer answer = AskAll(here, {"facts"}, 60 * kSecond)[0];
  const HostFacts facts = ParseFacts(answer.lines);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(facts.folder, absl::StrCat(getenv("HOME"), "/.cache/tethys"));
  EXPECT_EQ(facts.addresses.count("127.0.0.1"), 1);
  EXPECT_NE(facts.architecture, "");
  EXPECT_GT(facts.cores, 0);
  EXPECT_GE(facts.memory_bytes, facts.memory_free_bytes);
  EXPECT_GT(facts.memory_free_bytes, 0);
  EXPECT_GT(facts.disk_free_bytes, 0);
  EXPECT_EQ(facts.program, "");
  EXPECT_THAT(facts.gpus, IsEmpty()) << "GPUs are asked for separately";
  EXPECT_TRUE(FindClockOffset({answer}).has_value()) << "the time comes with the facts";
  EXPECT_THAT(ParseFacts(AskAll(here, {"gpus"}, 60 * kSecond)[0].lines).gpus, ElementsAre("NVIDIA H200"));

  // Both clocks are the same clock, so the true offset, 0, lies within the error.
  const std::optional<ClockOffset> offset = FindClockOffset(AskAll(here, {"time"}, 60 * kSecond));
  ASSERT_TRUE(offset.has_value());
  EXPECT_LE(std::abs(offset->seconds), offset->error);
}

}  // namespace
}  // namespace tethys
