#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "deploy/flags/completion.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<CommandSpec>& Specs() {
  static const std::vector<CommandSpec>& specs = *new std::vector<CommandSpec>{
      {.verb = "train",
       .argument = "JOB",
       .flags = {{.name = "tls", .value = "on|off"},
                 {.name = "run_dir", .value = "DIR"},
                 {.name = "resume"},
                 {.name = "vary", .value = "FIELD=V1,V2,...", .repeated = true}}},
      {.verb = "runs",
       .argument = "list|show [RUN]",
       .count = ArgumentCount::kWords,
       .flags = {{.name = "runs", .value = "DIR"}}},
      {.verb = "watch", .argument = "RUN_DIR"},
      {.verb = "hosts", .argument = "check"},
      {.verb = "plan", .flags = {{.name = "workers", .value = "all|LIST"}}},
      {.verb = "help", .argument = "VERB"},
      {.verb = "agent", .hidden = true}};
  return specs;
}

// The candidates for the word at the end of `line`, whose words are separated by single spaces.
std::vector<std::string> At(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  return CompletedWords(Specs(), words, words.size() - 1,
                        {.runs = [](const std::string& folder) -> std::vector<std::string> {
                           if (folder == "runs") return {"first", "second"};
                           return {absl::StrCat("in-", folder)};
                         },
                         .fields = [](absl::string_view text) -> std::vector<std::string> {
                           return {absl::StrCat(text, "x")};
                         }});
}

TEST(CompletionTest, FirstWordIsAVerbThatIsNotHidden) {
  EXPECT_THAT(At("tethys t"), ElementsAre("train"));
  EXPECT_THAT(At("tethys a"), IsEmpty());
  EXPECT_THAT(At("tethys "), ElementsAre("train", "runs", "watch", "hosts", "plan", "help"));
  EXPECT_THAT(At("tethys help w"), ElementsAre("watch"));
}

TEST(CompletionTest, FlagsWithValuesEndInAnEqualSign) {
  EXPECT_THAT(At("tethys train --r"), ElementsAre("--run_dir=", "--resume"));
  EXPECT_THAT(At("tethys train --"), ElementsAre("--help", "--tls=", "--run_dir=", "--resume", "--vary="));
}

TEST(CompletionTest, OnlyRepeatedFlagsAreOfferedAgain) {
  EXPECT_THAT(At("tethys train --tls=on --resume --vary=a=1 --"),
              ElementsAre("--help", "--run_dir=", "--vary="));
}

TEST(CompletionTest, EnumeratedValuesComeFromTheTable) {
  EXPECT_THAT(At("tethys train --tls=o"), ElementsAre("--tls=on", "--tls=off"));
  EXPECT_THAT(At("tethys train --tls of"), ElementsAre("off"));
  EXPECT_THAT(At("tethys plan --workers="), ElementsAre("--workers=all"));
}

TEST(CompletionTest, WordsThatBashSplitsAtEqualSignsCountAsOne) {
  EXPECT_THAT(At("tethys train --tls = o"), ElementsAre("--tls=on", "--tls=off"));
  EXPECT_THAT(At("tethys train --tls ="), ElementsAre("--tls=on", "--tls=off"));
  EXPECT_THAT(At("tethys train --vary = a = 1 --t"), ElementsAre("--tls="));
}

TEST(CompletionTest, FieldsAndTheirListsOfValuesAreCompleted) {
  EXPECT_THAT(At("tethys train --vary=a.b"), ElementsAre("--vary=a.bx"));
  EXPECT_THAT(At("tethys train --vary = a.b"), ElementsAre("--vary=a.bx"));
  EXPECT_THAT(At("tethys train --vary a"), ElementsAre("ax"));
  EXPECT_THAT(At("tethys train --vary=a=1,2"), ElementsAre("--vary=a=1,2x"));
}

TEST(CompletionTest, ArgumentsAreChoicesThenRuns) {
  EXPECT_THAT(At("tethys runs s"), ElementsAre("show"));
  EXPECT_THAT(At("tethys runs show "), ElementsAre("first", "second"));
  EXPECT_THAT(At("tethys runs --runs=other show "), ElementsAre("in-other"));
  EXPECT_THAT(At("tethys runs --runs other l"), ElementsAre("list")) << "the flag's value is no argument";
  EXPECT_THAT(At("tethys runs show first "), IsEmpty());
  EXPECT_THAT(At("tethys watch runs/s"), ElementsAre("runs/second"));
  EXPECT_THAT(At("tethys hosts "), ElementsAre("check"));
}

TEST(CompletionTest, FilesAreLeftToTheShell) {
  EXPECT_THAT(At("tethys train "), IsEmpty());
  EXPECT_THAT(At("tethys train --run_dir="), IsEmpty());
}

TEST(CompletionTest, UnknownVerbsFlagsAndCursorsHaveNoCandidates) {
  EXPECT_THAT(At("tethys nothing --"), IsEmpty());
  EXPECT_THAT(At("tethys train --nothing="), IsEmpty());
  EXPECT_THAT(CompletedWords(Specs(), {}, 0, {}), IsEmpty());
  EXPECT_THAT(CompletedWords(Specs(), {"tethys", "train", "--res"}, 1000, {}), IsEmpty());
}

TEST(CompletionScriptTest, ShellsOfTheListHaveAScript) {
  for (const absl::string_view shell : absl::StrSplit(kCompletionShells, '|')) {
    EXPECT_THAT(*CompletionScript(shell), ::testing::HasSubstr("__complete")) << shell;
  }
  EXPECT_THAT(std::string(CompletionScript("csh").status().message()),
              ::testing::HasSubstr("write one of bash|zsh|fish"));
}

}  // namespace
}  // namespace tethys
