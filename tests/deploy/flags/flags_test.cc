#include "deploy/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CommandSpec& Spec() {
  static const CommandSpec spec = {
      .verb = "train",
      .summary = "Trains.",
      .description = "Trains a model.",
      .argument = "JOB",
      .flags = {{.name = "run_dir", .value = "DIR", .help = "Where results go."},
                {.name = "resume", .help = "Goes on."},
                {.name = "set", .value = "FIELD=VALUE", .help = "Replaces a field.", .repeated = true}},
      .examples = {"tethys train a.textproto"}};
  return spec;
}

Flags Parse(const std::vector<std::string>& words) {
  absl::StatusOr<Flags> flags = ParseFlags(Spec(), words);
  EXPECT_TRUE(flags.ok()) << flags.status();
  return flags.ok() ? *flags : Flags();
}

std::string Error(const std::vector<std::string>& words, const CommandSpec& spec = Spec()) {
  const absl::StatusOr<Flags> flags = ParseFlags(spec, words);
  EXPECT_EQ(flags.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(flags.status().message());
}

TEST(FlagsTest, TakesArgumentsAndFlagsInAnyOrder) {
  const Flags flags = Parse({"--run_dir=a", "job", "--resume"});
  EXPECT_THAT(flags.arguments(), ElementsAre("job"));
  EXPECT_EQ(flags.Get("run_dir"), "a");
  EXPECT_TRUE(flags.Has("resume"));
  EXPECT_FALSE(flags.Has("set"));
}

TEST(FlagsTest, WordAfterAFlagIsTheValueOfTheFlag) {
  EXPECT_EQ(Parse({"job", "--run_dir", "a"}).Get("run_dir"), "a");
}

TEST(FlagsTest, ValueOfAFlagMayContainEqualSigns) {
  EXPECT_THAT(Parse({"job", "--set=a=1", "--set", "b.c=2"}).GetAll("set"), ElementsAre("a=1", "b.c=2"));
}

TEST(FlagsTest, TakesEverythingAfterTwoDashesAsArguments) {
  EXPECT_THAT(Parse({"--", "--resume"}).arguments(), ElementsAre("--resume"));
}

TEST(FlagsTest, SuggestsTheNearestFlag) {
  EXPECT_EQ(Error({"job", "--rundir=a"}),
            "there is no flag --rundir; did you mean --run_dir? (tethys train --help lists them)");
}

TEST(FlagsTest, JobFieldUsedAsFlagSuggestsSet) {
  EXPECT_EQ(Error({"job", "--epochs=3"}),
            "there is no flag --epochs, but a field of the job has this name: write --set=epochs=3");
  EXPECT_EQ(Error({"job", "--optimizer.learning_rate", "0.1"}),
            "there is no flag --optimizer.learning_rate, but a field of the job has this name: write "
            "--set=optimizer.learning_rate=VALUE");
  EXPECT_EQ(Error({"job", "-n", "2"}), "there is no flag -n (tethys train --help lists them)");
}

TEST(FlagsTest, FlagUnlikeAnyOtherGetsNoSuggestion) {
  EXPECT_EQ(Error({"job", "--bandwidth=3"}), "there is no flag --bandwidth (tethys train --help lists them)");
}

TEST(FlagsTest, SingleDashIsRefusedWithASuggestion) {
  EXPECT_THAT(Error({"job", "-resume"}), HasSubstr("did you mean --resume?"));
}

TEST(FlagsTest, RefusesAValueForASwitch) {
  EXPECT_EQ(Error({"job", "--resume=yes"}), "--resume takes no value, but got '--resume=yes'");
}

TEST(FlagsTest, RefusesAMissingOrEmptyValue) {
  EXPECT_EQ(Error({"job", "--run_dir"}), "--run_dir needs a value: --run_dir=DIR");
  EXPECT_EQ(Error({"job", "--run_dir="}), "--run_dir has an empty value: --run_dir=DIR");
}

TEST(FlagsTest, RefusesAFlagGivenTwice) {
  EXPECT_EQ(Error({"job", "--run_dir=a", "--run_dir=b"}), "--run_dir is given twice");
}

TEST(FlagsTest, RefusesASecondArgumentWithTheRemedy) {
  EXPECT_EQ(Error({"job", "more"}),
            "unexpected argument 'more': tethys train takes one JOB, and job is given");
  EXPECT_EQ(Error({"job", "--set=epochs", "3"}),
            "unexpected argument '3': write --set=epochs=3, without a blank");
  EXPECT_EQ(Error({"job", "--set", "epochs", "3"}),
            "unexpected argument '3': write --set=epochs=3, without a blank");
  EXPECT_EQ(Error({"job", "--set=epochs", "=3"}),
            "unexpected argument '=3': write --set=epochs=3, without a blank");
  EXPECT_EQ(Error({"job", "--resume", "yes"}), "unexpected argument 'yes': --resume takes no value");
  CommandSpec hosts = Spec();
  hosts.flags = {{.name = "hostfile", .value = "FILE", .help = "The machines.", .required = true}};
  EXPECT_EQ(Error({"check", "hosts"}, hosts), "unexpected argument 'hosts': did you mean --hostfile=hosts?");
}

TEST(FlagsTest, FlagOfAnotherProgramSuggestsOurFlag) {
  CommandSpec spec = Spec();
  spec.flags.push_back({.name = "hostfile", .value = "FILE", .help = "The machines."});
  EXPECT_THAT(Error({"job", "--hosts=a"}, spec),
              HasSubstr("there is no flag --hosts; did you mean --hostfile?"));
  EXPECT_THAT(Error({"job", "--run-dir=a"}, spec), HasSubstr("did you mean --run_dir?"));
  EXPECT_THAT(Error({"job", "--output-dir=a"}, spec), HasSubstr("did you mean --run_dir?"));
  EXPECT_EQ(Error({"job", "--hosts=a"}), "there is no flag --hosts (tethys train --help lists them)")
      << "this verb has no such flag";
}

TEST(FlagsTest, RefusesAMissingArgumentWithAnExample) {
  EXPECT_EQ(Error({}), "JOB is missing, for example: tethys train a.textproto");
}

TEST(FlagsTest, RefusesAMissingRequiredFlag) {
  CommandSpec spec = Spec();
  spec.flags[0].required = true;
  EXPECT_EQ(Error({"job"}, spec), "--run_dir=DIR is required: Where results go.");
  EXPECT_THAT(Error({}, spec), HasSubstr(" is missing, for example: "))
      << "what comes first is asked for first";
}

TEST(FlagsTest, ReadsWholeNumbersInTheirRange) {
  const Flags flags = Parse({"job", "--run_dir=12"});
  EXPECT_EQ(*flags.GetInteger("run_dir", 1, 1, 100), 12);
  EXPECT_EQ(*flags.GetInteger("set", 7, 1, 100), 7);
  EXPECT_EQ(flags.GetInteger("run_dir", 1, 1, 10).status().message(),
            "--run_dir=12 must be a whole number from 1 to 10");
  EXPECT_FALSE(Parse({"job", "--run_dir=12x"}).GetInteger("run_dir", 1, 1, 100).ok());
}

TEST(HelpTest, ListsEveryFlagAndAnExample) {
  EXPECT_EQ(HelpText(Spec()),
            "usage: tethys train JOB [--run_dir=DIR] [--resume] [--set=FIELD=VALUE ...]\n"
            "\n"
            "Trains a model.\n"
            "\n"
            "  --run_dir=DIR      Where results go.\n"
            "  --resume           Goes on.\n"
            "  --set=FIELD=VALUE  Replaces a field.\n"
            "  --help             Prints this help.\n"
            "\n"
            "example:\n"
            "  tethys train a.textproto\n");
}

TEST(HelpTest, UsageShowsHowManyArgumentsAreTaken) {
  CommandSpec spec{.verb = "data", .argument = "show JOB", .count = ArgumentCount::kWords};
  EXPECT_THAT(HelpText(spec), ::testing::StartsWith("usage: tethys data show JOB\n"));
  spec.count = ArgumentCount::kAny;
  EXPECT_THAT(HelpText(spec), ::testing::StartsWith("usage: tethys data show JOB [show JOB ...]\n"));
}

}  // namespace
}  // namespace tethys
