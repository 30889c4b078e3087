#include "deploy/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace tethys {
namespace {

using ::testing::ElementsAre;

const Place kHere = {.host = "here", .program = "/opt/tethys"};
const Place kThere = {
    .host = "slave1", .ssh = {"ssh", "-F", "my config", "slave1"}, .program = "/home/me/tethys"};

TEST(PlaceTest, AProcessHereIsAChild) {
  const SpawnOptions spawn = CommandAt(kHere, {"worker", "--index=0"});
  EXPECT_EQ(spawn.program, "/opt/tethys");
  EXPECT_THAT(spawn.arguments, ElementsAre("worker", "--index=0"));
}

TEST(PlaceTest, AProcessElsewhereIsOneSshWithOneWordForItsShell) {
  const SpawnOptions spawn = CommandAt(kThere, {"ps", "--chief=a:1"});
  EXPECT_EQ(spawn.program, "ssh");
  EXPECT_THAT(
      spawn.arguments,
      ElementsAre("-F", "my config", "slave1",
                  "exec sh -c ''\\''/home/me/tethys'\\'' '\\''ps'\\'' '\\''--chief=a:1'\\''; exit $?'"));
}

TEST(PlaceTest, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(ShellQuote("a b;$c"), "'a b;$c'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
}

TEST(PlaceTest, TellsHowAProcessElsewhereEnded) {
  EXPECT_TRUE(ExitAt(kThere, {.code = 0}).clean());
  EXPECT_EQ(ExitAt(kThere, {.code = 3}).code, 3);
  EXPECT_EQ(ExitAt(kThere, {.code = 128 + SIGKILL}).signal, SIGKILL);
}

TEST(PlaceTest, AnSshThatFailedOrWasKilledLostTheConnection) {
  EXPECT_TRUE(ExitAt(kThere, {.code = 255}).connection_lost);
  EXPECT_TRUE(ExitAt(kThere, {.signal = SIGKILL}).connection_lost);
  EXPECT_EQ(ExitText(ExitAt(kThere, {.code = 255})), "lost its ssh connection");
}

TEST(PlaceTest, TheEndOfAChildHereIsTakenAsItIs) {
  EXPECT_EQ(ExitAt(kHere, {.code = 255}).code, 255);
  EXPECT_EQ(ExitAt(kHere, {.signal = SIGKILL}).signal, SIGKILL);
}

}  // namespace
}  // namespace tethys
