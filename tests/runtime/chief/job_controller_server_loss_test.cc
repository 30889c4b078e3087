// Bulk-synchronous jobs whose servers have copies of their shards (replicas: 2): lost servers, which are
// replaced.
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

// The copy of server 0 is on server 1, of server 1 on server 2, and of server 2 on server 0.
constexpr char kCopied[] =
    "workers: 2 strategy { parameter_server { servers: 3 replicas: 2 } } max_restarts: 2";

class ServerLossTest : public GroupTest {
 protected:
  // Server 1 is lost, and all other tasks have left their group.
  void LoseServer1(int64_t copy = 1) {
    Begin(kCopied);
    Vanish(Server(1));
    EXPECT_THAT(Log(), ElementsAre("w0 halt", "w1 halt", "p0 halt", "p2 halt"));
    for (const int worker : {0, 1}) Halted(worker, 1, 0);
    Halted(Server(0), 1, 1, 1);
    Halted(Server(2), 1, 1, copy);
  }
};

TEST_F(ServerLossTest, ReplacementTakesItsShardsFromTheCopy) {
  LoseServer1();
  EXPECT_THAT(Log(), IsEmpty()) << "the group waits for the replacement";
  Tick(0.1);
  JoinAgain(Server(1));
  EXPECT_THAT(Log(), ElementsAre("p1 setup", "w0 form", "w1 form", "p0 form", "p1 form", "p2 form"));
  EXPECT_EQ(LastForm().step(), 1);
  EXPECT_THAT(LastForm().restored(), ElementsAre(1));
  EXPECT_EQ(LastForm().group().member(3).incarnation(), 2u);
  for (const int worker : {0, 1}) Formed(worker, 2);
  for (const int server : {0, 2}) Formed(Server(server), 2);
  EXPECT_THAT(Log(), IsEmpty());
  SayAs(2, Server(1), "formed { generation: 2 }");
  EXPECT_THAT(Log(), ElementsAre("w0 run", "w1 run"));
  const proto::RunSummary summary = Summary();
  ASSERT_EQ(summary.server_loss_size(), 1);
  EXPECT_EQ(summary.server_loss(0).server(), 1);
  EXPECT_GT(summary.server_loss(0).replaced_seconds(), 0);
  EXPECT_THAT(summary.group_change(0).cause(), HasSubstr("lost ps 1"));
}

TEST_F(ServerLossTest, CopyThatLacksTheNewestStepSetsTheStepOfTheNextGroup) {
  LoseServer1(0);
  JoinAgain(Server(1));
  EXPECT_EQ(LastForm().step(), 0);
  EXPECT_THAT(LastForm().restored(), ElementsAre(1));
}

TEST_F(ServerLossTest, ReplacementThatIsLostBeforeItHasItsShardsIsReplacedAgain) {
  LoseServer1();
  JoinAgain(Server(1));
  Log();
  incarnation_ = 2;
  Vanish(Server(1));
  incarnation_ = 1;
  EXPECT_THAT(Log(), ElementsAre("w0 halt", "w1 halt", "p0 halt", "p2 halt"));
  for (const int worker : {0, 1}) Halted(worker, 2, 1);
  Halted(Server(0), 2, 1, 1);
  Halted(Server(2), 2, 1, 1);
  JoinAgain(Server(1), 3);
  EXPECT_THAT(LastForm().restored(), ElementsAre(1));
  EXPECT_EQ(LastForm().group().generation(), 3u);
}

TEST_F(ServerLossTest, LossOfAServerAndOfItsCopyEndsTheJob) {
  LoseServer1();
  Vanish(Server(2));
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost ps 2"));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("no other server has the parameters of step 0"));
}

TEST_F(ServerLossTest, LossOfAServerAndOfAServerThatHasAnotherCopyIsSurvived) {
  Begin(
      "workers: 2 strategy { parameter_server { servers: 4 replicas: 2 } } tuning { partitioner { fixed { "
      "shards: 4 } } } "
      "max_restarts: 2");
  for (const int server : {0, 2}) Vanish(Server(server));
  for (const int worker : {0, 1}) Halted(worker, 1, 0);
  Halted(Server(1), 1, 1, 1);
  Halted(Server(3), 1, 1, 1);
  for (const int server : {0, 2}) JoinAgain(Server(server));
  EXPECT_THAT(LastForm().restored(), ElementsAre(0, 2));
}

TEST_F(ServerLossTest, LossOfAServerWithoutARestartLeftEndsTheJob) {
  Begin("workers: 2 strategy { parameter_server { servers: 3 replicas: 2 } } max_restarts: 0");
  Vanish(Server(1));
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost ps 1"));
  EXPECT_THAT(Log(), Not(Contains("w0 halt")));
}

TEST_F(ServerLossTest, LossOfAServerBeforeTrainingBeginsEndsTheJob) {
  Start(kCopied);
  Vanish(Server(1));
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost ps 1"));
}

TEST_F(ServerLossTest, PushesThatTheLostServerDidNotReportAreInTheJournalOnce) {
  Begin(kCopied);
  for (const int worker : {0, 1}) {
    Applied(0, worker, 5 * worker, 5, 1);
    Record(worker, 0, 5 * worker, 5 * worker + 5);
  }
  Applied(1, 0, 0, 5, 1);
  EXPECT_THAT(journal_, HasSubstr("applied 1 0 1 0 5 1\n"));
  Vanish(Server(1));
  for (const int worker : {0, 1}) {
    Halted(worker, 1, 1);
    Applied(2, worker, 5 * worker, 5, 1);
  }
  Halted(Server(0), 1, 1, 1);
  Halted(Server(2), 1, 1, 1);
  JoinAgain(Server(1));
  for (const int worker : {0, 1}) Formed(worker, 2);
  for (const int server : {0, 2}) Formed(Server(server), 2);
  journal_.clear();
  SayAs(2, Server(1), "formed { generation: 2 }");
  EXPECT_THAT(journal_, HasSubstr("applied 1 1 0 5 5 1\n"));
  EXPECT_THAT(journal_, Not(HasSubstr("applied 1 0")));
  EXPECT_THAT(journal_, Not(HasSubstr("applied 0")));
}

TEST_F(ServerLossTest, SilentServerIsSparedForAWhileIfTheServerWithItsCopyIsSilentToo) {
  for (const bool backup : {false, true}) {
    Begin(kCopied);
    for (int quarter = 0; quarter < 8; ++quarter) {
      for (const TaskId task : {Worker(0), Worker(1), Server(0)}) Say(task, "heartbeat {}");
      if (!backup) Say(Server(2), "heartbeat {}");
      Tick(0.25);
    }
    EXPECT_EQ(journal_,
              absl::StrCat("lost ps ", backup ? 2 : 1, " it was silent for 1 s (timeouts.worker_silence)\n"));
  }
}

}  // namespace
}  // namespace tethys
