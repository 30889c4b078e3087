#include "ps/server_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ServerMovesTest : public ::testing::Test {
 protected:
  void Move(const std::string& address) { moves_.Move({{"host", address}}); }
  // Adds the address of each move to `seen_`.
  ServerMoves::Moved See() {
    return [this](const std::vector<ServerAddress>& servers) { seen_.push_back(servers[0].address); };
  }

  ServerMoves moves_;
  std::vector<std::string> seen_;
};

TEST_F(ServerMovesTest, WatchLearnsOfEachMove) {
  const ServerMoves::Watch watch(&moves_, See());
  EXPECT_THAT(seen_, IsEmpty());
  Move("a:1");
  Move("a:2");
  EXPECT_THAT(seen_, ElementsAre("a:1", "a:2"));
}

TEST_F(ServerMovesTest, WatchThatBeginsAfterAMoveLearnsOfTheNewestMove) {
  Move("a:1");
  Move("a:2");
  const ServerMoves::Watch watch(&moves_, See());
  EXPECT_THAT(seen_, ElementsAre("a:2"));
}

TEST_F(ServerMovesTest, WatchThatHasEndedLearnsOfNoMove) {
  { const ServerMoves::Watch watch(&moves_, See()); }
  Move("a:1");
  EXPECT_THAT(seen_, IsEmpty());
  const ServerMoves::Watch nothing(nullptr, See());
}

}  // namespace
}  // namespace tethys
