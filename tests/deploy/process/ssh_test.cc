#include "deploy/process/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Makes a remote command in which `script` takes the place of ssh and of the host. `command` is the script's
// $1.
RemoteCommand Instead(const std::string& script, const std::string& command = "") {
  return {.ssh = {"sh", "-c", script, "ssh"}, .command = command};
}

std::vector<RemoteResult> Call(const std::vector<RemoteCommand>& commands,
                               Nanoseconds deadline = 60 * kSecond) {
  const testing::TempDirectory scratch;
  return RunEverywhere(commands, deadline, scratch.path());
}

TEST(SshTest, HostIsTheLastArgumentOfSshAndIsNeverReadAsAnOption) {
  const std::vector<std::string> words =
      SshCall("my config", {.host = "-oProxyCommand=x", .user = "me", .port = 23});
  EXPECT_EQ(words[0], "ssh");
  EXPECT_THAT(words, Contains("BatchMode=yes"));
  EXPECT_THAT((std::vector<std::string>(words.end() - 6, words.end())),
              ElementsAre("-l", "me", "-p", "23", "--", "-oProxyCommand=x"));
}

TEST(SshTest, CommandReachesShellUnchanged) {
  const std::vector<RemoteResult> results = Call({Instead("eval \"$1\"", "printf '%s|' \"it's\" 'a  b'")});
  EXPECT_TRUE(results[0].status.ok()) << results[0].status;
  EXPECT_EQ(results[0].output, "it's|a  b|");
}

// Commands that write what a shell's start-up files may write before the output of a remote command.
const char* const kGreetings[] = {"echo Welcome",
                                  "printf hi",
                                  "printf '\\033[1;32mslave1\\033[0m $ '",
                                  "head -c 3000 /dev/urandom",
                                  "head -c 5000000 /dev/zero",
                                  "yes hello | head -c 3000000",
                                  "set -v; echo \"$1\""};

TEST(SshTest, GreetingBeforeOutputIsSkipped) {
  for (const std::string greeting : kGreetings) {
    const testing::TempDirectory directory;
    const std::string shell = greeting + "; eval \"$1\"";
    RemoteCommand to_file = Instead(shell, "printf 'bytes\\0\\n'");
    to_file.output_path = directory.Path("output");
    const std::vector<RemoteResult> results =
        Call({Instead(shell, "echo a"), to_file, Instead(shell, "exit 3")});
    EXPECT_EQ(results[0].output, "a\n") << greeting;
    EXPECT_EQ(results[0].moved, 2) << greeting;
    EXPECT_EQ(*ReadFile(to_file.output_path), std::string("bytes\0\n", 7)) << greeting;
    EXPECT_EQ(results[2].status.code(), absl::StatusCode::kAborted) << greeting;
  }
}

TEST(SshTest, ShellThatDoesNotRunCommandIsReported) {
  EXPECT_EQ(Call({Instead("echo Welcome; exit 0", "echo a")})[0].status,
            absl::UnavailableError("the shell on the host ended without running the command"));
}

TEST(SshTest, EndlessGreetingIsDeadlineExceeded) {
  RemoteCommand command = Instead("exec yes", "echo a");
  command.moves_data = true;
  EXPECT_EQ(Call({command}, 50 * kMillisecond)[0].status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(SshTest, ResultsAreInOrderOfCommands) {
  const std::vector<RemoteResult> results =
      Call({Instead("echo a"), Instead("echo b >&2; exit 3"), Instead("echo c")});
  EXPECT_EQ(results[0].output, "a\n");
  EXPECT_EQ(results[1].status, absl::AbortedError("b"));
  EXPECT_EQ(results[2].output, "c\n");
}

TEST(SshTest, FailureOfSshIsUnavailableAndFailureOfTheCommandIsAborted) {
  const std::vector<RemoteResult> results =
      Call({Instead("echo 'ssh: connect to host x: No route' >&2; exit 255"), Instead("exit 255"),
            Instead("exit 7")});
  EXPECT_EQ(results[0].status, absl::UnavailableError("ssh: connect to host x: No route"));
  EXPECT_EQ(results[1].status, absl::UnavailableError("ssh: exited with status 255"));
  EXPECT_EQ(results[2].status, absl::AbortedError("exited with status 7"));
}

TEST(SshTest, MissingAnswerIsDeadlineExceeded) {
  const RemoteResult result = Call({Instead("exec sleep 1000")}, 50 * kMillisecond)[0];
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(SshTest, InputFileIsReadByCommand) {
  const testing::TempDirectory directory;
  RemoteCommand command = Instead("wc -c");
  command.input_path = directory.Write("input", std::string(100'000, 'x'));
  EXPECT_THAT(Call({command})[0].output, HasSubstr("100000"));
}

TEST(SshTest, LongOutputGoesToFile) {
  const testing::TempDirectory directory;
  RemoteCommand command = Instead("cat");
  command.input_path = directory.Write("input", std::string(3'000'000, 'x'));
  command.output_path = directory.Path("output");
  const RemoteResult result = Call({command})[0];
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(*ReadFile(command.output_path), std::string(3'000'000, 'x'));
  EXPECT_EQ(result.moved, 6'000'000) << "as much came as was sent";
}

TEST(SshTest, UnwritableOutputFileEndsCommand) {
  RemoteCommand command = Instead("cat /dev/zero");
  command.output_path = "/dev/full";
  EXPECT_THAT(std::string(Call({command})[0].status.message()),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

TEST(SshTest, StalledTransferIsDeadlineExceeded) {
  RemoteCommand command = Instead("echo a; exec sleep 1000");
  command.moves_data = true;
  const absl::Status status = Call({command}, 50 * kMillisecond)[0].status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no data was transferred"));
}

TEST(PatienceTest, WithoutATransferThePatienceLimitsTheTotalTime) {
  Patience patience(10, false, 100);
  EXPECT_FALSE(patience.IsOver(1, 109));
  EXPECT_TRUE(patience.IsOver(2, 110));
}

TEST(PatienceTest, WithATransferThePatienceLimitsTheTimeSinceTheLastByte) {
  Patience patience(10, true, 100);
  for (Nanoseconds now = 109; now < 2000; now += 9) EXPECT_FALSE(patience.IsOver(now, now));
  const int64_t moved = 5000;
  EXPECT_FALSE(patience.IsOver(moved, 2000));
  EXPECT_FALSE(patience.IsOver(moved, 2009));
  EXPECT_TRUE(patience.IsOver(moved, 2010));
  EXPECT_THAT(std::string(patience.Error().message()), HasSubstr("after 5000 bytes"));
}

TEST(SshTest, CommandSuggestedForTryingTheConnectionIsQuotedForAShell) {
  EXPECT_EQ(SshTrial("", {.host = "h"}), "ssh -o BatchMode=yes h true");
  EXPECT_EQ(SshTrial("my config", {.host = "h", .user = "me", .port = 23}),
            "ssh -F 'my config' -o BatchMode=yes -l me -p 23 h true");
}

TEST(SshTest, MissingProgramIsNamed) {
  const RemoteResult result = Call({{.ssh = {"no-such-ssh"}}})[0];
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("cannot execute no-such-ssh"));
}

}  // namespace
}  // namespace tethys
