#include "deploy/process/remote_shell.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/process/ssh.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

// A script with characters that some shells change in some places, and the text that the script must print.
constexpr char kScript[] =
    R"sh(printf '%s|' "it's" 'a!b' '!!' "\$x" '\\n' "`echo q`" "é" '~' '*' '{a,b}' '^x^y' '%1' '#c'
x=$(cat)  # A comment with ' and ".
case $x in given) echo "
two lines" ;; esac
)sh";
constexpr char kOutput[] = "it's|a!b|!!|$x|\\\\n|q|é|~|*|{a,b}|^x^y|%1|#c|\ntwo lines\n";

RemoteResult RunBy(const std::vector<std::string>& shell, const std::string& call) {
  const testing::TempDirectory directory;
  std::vector<std::string> words = shell;
  words.insert(words.end(), {"-c", call});
  return RunEverywhere({{.ssh = words, .input_path = directory.Write("input", "given")}}, 60 * kSecond,
                       directory.path())[0];
}

class LoginShellTest : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  void SetUp() override {
    if (!RunBy(GetParam(), "true").status.ok())
      GTEST_SKIP() << "there is no shell " << GetParam()[0] << " here";
  }
};

TEST_P(LoginShellTest, ScriptReachesShUnchanged) {
  const RemoteResult result = RunBy(GetParam(), ShellCall(kScript));
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.output, kOutput);
}

TEST_P(LoginShellTest, LongScriptsAndExitStatusesArrive) {
  const std::string comments(100'000, '#');
  const RemoteResult result = RunBy(GetParam(), ShellCall(absl::StrCat(comments, "\necho done\nexit 3")));
  EXPECT_EQ(result.status, absl::AbortedError("exited with status 3"));
  EXPECT_EQ(result.output, "done\n");
}

TEST_P(LoginShellTest, MarkedCallPrintsTheMarkBeforeTheOutputOfTheCommand) {
  EXPECT_EQ(RunBy(GetParam(), MarkedShellCall("echo a")).output, absl::StrCat(kOutputMark, "a\n"));
}

INSTANTIATE_TEST_SUITE_P(Shells, LoginShellTest,
                         ::testing::Values(std::vector<std::string>{"sh"}, std::vector<std::string>{"bash"},
                                           std::vector<std::string>{"dash"}, std::vector<std::string>{"csh"},
                                           std::vector<std::string>{"tcsh"}, std::vector<std::string>{"zsh"},
                                           std::vector<std::string>{"fish"}, std::vector<std::string>{"ksh"},
                                           std::vector<std::string>{"busybox", "sh"}));

TEST(RemoteShellTest, CommandTextIsPlainAndLacksTheMark) {
  const std::string call = MarkedShellCall(kScript);
  for (const char c : call) EXPECT_TRUE(c >= ' ' && c <= '~' && c != '!') << static_cast<int>(c);
  EXPECT_FALSE(MarkSkipper(kOutputMark).Skip(call).size() > 0);
}

TEST(RemoteShellTest, QuotesCharactersSpecialToShell) {
  EXPECT_EQ(ShellQuote("a b;$c"), "'a b;$c'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
}

// The bytes after the mark in `stream`, which arrives in pieces of `piece` bytes.
std::string Behind(const std::string& mark, const std::string& stream, size_t piece) {
  MarkSkipper skipper(mark);
  std::string behind;
  for (size_t i = 0; i < stream.size(); i += piece)
    absl::StrAppend(&behind, skipper.Skip(stream.substr(i, piece)));
  return behind;
}

TEST(RemoteShellTest, WordsOfDisplayedCommandsAreQuotedOnlyWhereAShellWouldChangeThem) {
  EXPECT_EQ(ShellWord("runs/long-1"), "runs/long-1");
  EXPECT_EQ(ShellWord("my runs/long"), "'my runs/long'");
  EXPECT_EQ(ShellWord(""), "''");
}

TEST(MarkSkipperTest, AnyTextBeforeTheMarkIsDropped) {
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes += static_cast<char>(i * 7);
  for (const std::string& greeting :
       {std::string(), std::string("hi"), std::string("hi\n"), std::string("\x1b[31m$ "), bytes,
        std::string("\ntethys-output-"), std::string("\n\ntethys-output-begin\ntethys-output-begin"),
        std::string(3 << 20, 'x')}) {
    for (const size_t piece : {size_t{1}, size_t{5}, size_t{4096}, size_t{1} << 23}) {
      if (piece == 1 && greeting.size() > 1 << 20) continue;
      EXPECT_EQ(Behind(kOutputMark, absl::StrCat(greeting, kOutputMark, "a\n", kOutputMark), piece),
                absl::StrCat("a\n", kOutputMark))
          << greeting.size() << " bytes before the mark, in pieces of " << piece;
    }
  }
}

TEST(MarkSkipperTest, OutputWithoutTheMarkGivesNothing) {
  EXPECT_EQ(Behind(kOutputMark, "tethys-output-begins\n", 3), "");
  MarkSkipper skipper(kOutputMark);
  EXPECT_FALSE(skipper.found());
}

TEST(MarkSkipperTest, EmptyMarkSkipsNothing) {
  EXPECT_TRUE(MarkSkipper().found());
  EXPECT_EQ(Behind("", "abc", 2), "abc");
}

}  // namespace
}  // namespace tethys
