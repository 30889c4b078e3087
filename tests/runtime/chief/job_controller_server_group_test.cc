// Bulk-synchronous jobs whose workers and servers form new groups: losses, replacements, steps that servers
// take back, exchanges that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/chief/group_fixture.h"

namespace tethys {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kOnServers[] = "workers: 2 strategy { parameter_server { servers: 2 } } max_restarts: 2";

class ServerGroupTest : public GroupTest {};

TEST_F(ServerGroupTest, NextGroupContinuesFromTheStepOfTheServerThatAppliedTheFewest) {
  Begin(kOnServers);
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "p0 halt", "p1 halt"));
  Halted(0, 1, 0);
  Halted(Server(0), 1, 1);
  EXPECT_THAT(Log(), IsEmpty());
  Halted(Server(1), 1, 0);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "p0 form", "p1 form"));
  EXPECT_EQ(LastForm().step(), 0);
  EXPECT_EQ(LastForm().group().member_size(), 3);
  EXPECT_THAT(LastForm().behind(), IsEmpty());
  Formed(0, 2);
  Formed(Server(0), 2);
  EXPECT_THAT(Log(), IsEmpty()) << "a server has not joined yet";
  Formed(Server(1), 2);
  EXPECT_THAT(Log(), ElementsAre("w0 run"));
  EXPECT_EQ(LastRun().first_step(), 0);
}

TEST_F(ServerGroupTest, WorkerThatLacksAStepThatAllServersAppliedIsListedAsBehind) {
  Begin(kOnServers);
  Vanish(Worker(1));
  Halted(0, 1, 0);
  for (const int server : {0, 1}) Halted(Server(server), 1, 1);
  EXPECT_EQ(LastForm().step(), 1);
  EXPECT_THAT(LastForm().behind(), ElementsAre(0));
}

TEST_F(ServerGroupTest, PushesOfAStepThatIsTakenBackAreNotInTheJournal) {
  Begin(kOnServers);
  Applied(0, 0, 0, 5, 1);
  Applied(0, 1, 5, 5, 1);
  EXPECT_THAT(journal_, Not(HasSubstr("applied"))) << "no worker has recorded the step";
  Vanish(Worker(1));
  Halted(0, 1, 0);
  Halted(Server(0), 1, 1);
  Halted(Server(1), 1, 0);
  Formed(0, 2);
  for (const int server : {0, 1}) Formed(Server(server), 2);
  Record(0, 0, 0, 10);
  EXPECT_THAT(journal_, Not(HasSubstr("applied")));
  for (const int server : {0, 1}) Applied(server, 0, 0, 10, 1);
  EXPECT_THAT(journal_, HasSubstr("used 0 0 0 10\napplied 0 0 1 0 10 1\napplied 1 0 1 0 10 1\n"));
}

TEST_F(ServerGroupTest, ReplacementInAJobWithServersReadsTheCheckpointAndJoinsTheServers) {
  Begin(kOnServers);
  Vanish(Worker(1));
  Halted(0, 1, 0);
  for (const int server : {0, 1}) Halted(Server(server), 1, 0);
  Formed(0, 2);
  for (const int server : {0, 1}) Formed(Server(server), 2);
  Log();
  JoinAgain(1);
  EXPECT_THAT(Log(), ElementsAre("w1 setup", "w0 halt", "p0 halt", "p1 halt"));
  Halted(0, 2, 0);
  for (const int server : {0, 1}) Halted(Server(server), 2, 0);
  EXPECT_THAT(Log(), ElementsAre("w0 form", "w1 form", "p0 form", "p1 form"));
  EXPECT_THAT(LastForm().behind(), ElementsAre(1));
}

TEST_F(ServerGroupTest, WorkerWhoseExchangeWithServersFailsTwiceCountsAsLost) {
  Begin(kOnServers);
  for (const uint32_t generation : {1, 2}) {
    Say(Worker(1), absl::StrCat("halted { generation: ", generation,
                                " applied: 0 suspect: 1 reason: 'cannot reach server 0' }"));
    Halted(0, generation, 0);
    for (const int server : {0, 1}) Halted(Server(server), generation, 0);
    for (const int worker : {0, 1}) Formed(worker, generation + 1);
    for (const int server : {0, 1}) Formed(Server(server), generation + 1);
  }
  EXPECT_THAT(journal_, HasSubstr("lost worker 1 exchanges with it failed 2 times in a row"));
}

TEST_F(ServerGroupTest, OnlyWorkerOfAJobIsNotCountedAsLostForFailedExchanges) {
  Begin("workers: 1 strategy { parameter_server { servers: 1 } }");
  for (const uint32_t generation : {1, 2, 3}) {
    Say(Worker(0), absl::StrCat("halted { generation: ", generation,
                                " applied: 0 suspect: 0 reason: 'cannot reach server 0' }"));
    Halted(Server(0), generation, 0);
    Formed(0, generation + 1);
    Formed(Server(0), generation + 1);
  }
  EXPECT_THAT(journal_, Not(HasSubstr("lost worker")));
}

TEST_F(ServerGroupTest, LossOfAServerWhileAGroupFormsEndsTheJob) {
  Begin(kOnServers);
  Vanish(Worker(1));
  Vanish(Server(1));
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost ps 1"));
}

TEST_F(ServerGroupTest, LossOfTheOnlyWorkerEndsAJobWithServersWithoutReplacements) {
  Begin("workers: 1 strategy { parameter_server { servers: 1 } }");
  Vanish(Worker(0));
  Halted(Server(0), 1, 1);
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()),
              HasSubstr("0 workers are left, and the job needs 1; max_restarts"));
}

TEST_F(ServerGroupTest, JobWithServersAndOnLossEndEndsAtItsFirstWorkerLoss) {
  Begin("workers: 2 strategy { parameter_server { servers: 1 } } elastic { on_loss: END }");
  Vanish(Worker(1));
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost worker 1"));
  EXPECT_THAT(Log(), Not(Contains("w0 halt")));
}

}  // namespace
}  // namespace tethys
