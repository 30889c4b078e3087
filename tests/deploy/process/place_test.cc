#include "deploy/process/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/process/remote_shell.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;

const Place kHere = {.host = "here", .program = "/opt/tethys"};
const Place kThere = {
    .host = "slave1", .ssh = {"ssh", "-F", "my config", "slave1"}, .program = "/home/me/tethys"};

TEST(PlaceTest, CommandAtLocalPlaceIsTheProgramItself) {
  const SpawnOptions spawn = CommandAt(kHere, {"worker", "--index=0"});
  EXPECT_EQ(spawn.program, "/opt/tethys");
  EXPECT_THAT(spawn.arguments, ElementsAre("worker", "--index=0"));
}

TEST(PlaceTest, CommandAtRemotePlaceCallsSshWithTheCommandAsOneArgument) {
  const SpawnOptions spawn = CommandAt(kThere, {"ps", "--chief=a:1"});
  EXPECT_EQ(spawn.program, "ssh");
  EXPECT_THAT(spawn.arguments, ElementsAre("-F", "my config", "slave1",
                                           ShellCall("'/home/me/tethys' 'ps' '--chief=a:1'; exit $?")));
}

}  // namespace
}  // namespace tethys
