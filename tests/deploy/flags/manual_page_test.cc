#include "deploy/flags/manual_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const CommandSpec kSpec = {
    .verb = "train",
    .summary = "Trains.",
    .description = "First.\n.Second 'line' of a\\b.",
    .argument = "JOB",
    .argument_optional = true,
    .flags = {{.name = "out", .value = "FILE", .help = ".help", .required = true},
              {.name = "set", .value = "FIELD=VALUE", .help = "Sets.", .repeated = true}},
    .examples = {"tethys train 'a b' | cat"}};

TEST(ManualPageTest, VerbHasItsFlagsAndExamples) {
  const std::string page = VerbPage(kSpec, "Tethys 1");
  EXPECT_THAT(page, HasSubstr(".TH \"tethys-train\" 1 \"\" \"Tethys 1\""));
  EXPECT_THAT(page, HasSubstr(".B tethys train\n[JOB]\n\\-\\-out=FILE\n[FLAG ...]\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n.B \\-\\-set=FIELD=VALUE\nSets. May be given several times.\n"));
  EXPECT_THAT(page, HasSubstr(".B \\-\\-help\n"));
  EXPECT_THAT(page, HasSubstr("tethys train \\(aqa b\\(aq | cat\n"));
}

TEST(ManualPageTest, TextIsNoRequestOfTroff) {
  const std::string page = VerbPage(kSpec, "Tethys 1");
  EXPECT_THAT(page, HasSubstr(".PP\nFirst.\n.PP\n\\&.Second \\(aqline\\(aq of a\\eb.\n"));
  EXPECT_THAT(page, HasSubstr(".B \\-\\-out=FILE\n\\&.help\n"));
}

TEST(ManualPageTest, CommandListsVerbsThatAreNotHidden) {
  CommandSpec hidden = kSpec;
  hidden.verb = "agent";
  hidden.hidden = true;
  const std::string page = CommandPage({kSpec, hidden}, "trains models", "Tethys 1");
  EXPECT_THAT(page, HasSubstr("tethys \\- trains models\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n.B train\nTrains.\n"));
  EXPECT_THAT(page, Not(HasSubstr("agent")));
}

}  // namespace
}  // namespace tethys
