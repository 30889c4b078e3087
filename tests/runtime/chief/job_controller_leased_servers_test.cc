// Asynchronous and stale-synchronous jobs whose servers have copies of their shards (replicas: 2): lost
// servers, which are replaced while workers train on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/chief/losses_fixture.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The copy of server 0 is on server 1, of server 1 on server 2, and of server 2 on server 0.
constexpr char kCopied[] =
    "workers: 2 strategy { parameter_server { servers: 3 replicas: 2 asynchronous {} } } max_restarts: 3 "
    "tuning { partitioner { fixed { shards: 3 } } } ";

class LeasedServersTest : public LossesTest {
 protected:
  void Halted(int server, uint32_t generation = 1, bool copy = true) {
    Say(Server(server),
        absl::StrCat("halted { generation: ", generation, " applied: 1 ", copy ? "copy: 1" : "", " }"));
  }
  void LoseServer1(const std::string& job = kCopied) {
    Begin(job);
    Vanish(Server(1));
    EXPECT_THAT(Log(), ElementsAre("p0 halt", "p2 halt"));
  }
  void ServerJoinsAgain(uint32_t incarnation = 2) {
    ASSERT_TRUE(controller_->Admit(Server(1), incarnation, now_).ok());
    server_incarnation_ = incarnation;
    Say(Server(1), "join { host: 'b' data_address: 'b:7' }");
    Say(Server(1), "ready {}");
    server_incarnation_ = 1;
  }
  void Formed(uint32_t generation = 2, uint32_t incarnation = 2) {
    for (const int server : {0, 2}) {
      Say(Server(server), absl::StrCat("formed { generation: ", generation, " }"));
    }
    server_incarnation_ = incarnation;
    Say(Server(1), absl::StrCat("formed { generation: ", generation, " }"));
    server_incarnation_ = 1;
  }
  // The last order of this kind.
  proto::ToTask LastOrder(bool (proto::ToTask::*has)() const) const {
    for (auto order = orders_.rbegin(); order != orders_.rend(); ++order) {
      if ((order->order.*has)()) return order->order;
    }
    return {};
  }
};

TEST_F(LeasedServersTest, ReplacementTakesItsShardsFromTheCopyAndWorkersLearnWhereItIs) {
  LoseServer1();
  for (const int server : {0, 2}) Halted(server);
  EXPECT_THAT(Log(), IsEmpty()) << "the servers wait for the replacement";
  Tick(0.1);
  ServerJoinsAgain();
  EXPECT_THAT(Log(), ElementsAre("p1 setup", "p0 form", "p1 form", "p2 form"));
  const proto::Form form = LastOrder(&proto::ToTask::has_form).form();
  EXPECT_EQ(form.group().generation(), 2u);
  EXPECT_THAT(form.restored(), ElementsAre(1));
  Formed();
  EXPECT_THAT(Log(), ElementsAre("w0 servers", "w1 servers"));
  const proto::Servers servers = LastOrder(&proto::ToTask::has_servers).servers();
  ASSERT_EQ(servers.server_size(), 3);
  EXPECT_EQ(servers.server(1).data_address(), "b:7");
  const proto::RunSummary summary = Summary();
  ASSERT_EQ(summary.server_loss_size(), 1);
  EXPECT_GT(summary.server_loss(0).replaced_seconds(), 0);
}

TEST_F(LeasedServersTest, WorkersTrainOnWhileTheServersFormAGroup) {
  LoseServer1();
  Use(0, NewestLease(0).range(0).begin());
  Say(Worker(0), "lease_request { batches: 1 }");
  EXPECT_THAT(Log(), ElementsAre("w0 lease"));
}

TEST_F(LeasedServersTest, PushesThatTheLostServerHadReportedAreNotCountedAgain) {
  Begin(kCopied);
  const auto applied = [](int64_t sequence) {
    return absl::StrCat("push { worker: 0 incarnation: 1 sequence: ", sequence,
                        " sample_begin: ", 5 * (sequence - 1), " sample_count: 5 version: ", sequence, " }");
  };
  Say(Server(1), absl::StrCat("applied { ", applied(1), " }"));
  Vanish(Server(1));
  for (const int server : {0, 2}) Halted(server);
  ServerJoinsAgain();
  journal_.clear();
  server_incarnation_ = 2;
  Say(Server(1), absl::StrCat("applied { ", applied(1), applied(2), " }"));
  EXPECT_THAT(journal_, HasSubstr("applied 1 0 2 5 "));
  EXPECT_THAT(journal_, Not(HasSubstr("applied 1 0 1 "))) << "it is in the journal already";
}

TEST_F(LeasedServersTest, FencesAreSentAgainAndTheReplacementObeysThemFirst) {
  Begin(kCopied);
  Vanish(Worker(1));
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "p1 fence", "p2 fence"));
  Say(Server(0), "fenced { worker: 1 incarnation: 2 }");
  Vanish(Server(1));
  for (const int server : {0, 2}) Halted(server);
  ServerJoinsAgain();
  const proto::Form form = LastOrder(&proto::ToTask::has_form).form();
  ASSERT_EQ(form.fence_size(), 1);
  EXPECT_EQ(form.fence(0).worker(), 1);
  EXPECT_EQ(form.fence(0).incarnation(), 2u);
  Log();
  Formed();
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "p1 fence", "p2 fence", "w0 servers"));
  Say(Server(0), "fenced { worker: 1 incarnation: 2 }");
  Say(Server(2), "fenced { worker: 1 incarnation: 2 }");
  EXPECT_EQ(Summary().worker_loss(0).batches_returned(), 0) << "the new server has not answered";
  server_incarnation_ = 2;
  Say(Server(1), "fenced { worker: 1 incarnation: 2 }");
  EXPECT_GT(Summary().worker_loss(0).batches_returned(), 0);
}

TEST_F(LeasedServersTest, ReplacedWorkerIsSetUpOnceAllServersAreThere) {
  Begin(kCopied);
  Vanish(Worker(1));
  Fenced();
  Vanish(Server(1));
  Log();
  JoinAgain();
  EXPECT_THAT(Log(), IsEmpty());
  for (const int server : {0, 2}) Halted(server);
  ServerJoinsAgain();
  Log();
  Formed();
  EXPECT_THAT(Log(), ElementsAre("p0 fence", "p1 fence", "p2 fence", "w0 servers", "w1 setup", "w1 form"));
}

TEST_F(LeasedServersTest, SaveIsAbandonedAndMadeAgainWhenAServerIsLost) {
  LossesTest::Begin(kCopied);
  for (const int worker : {0, 1}) UseAll(worker);
  FinishWell();
  EXPECT_THAT(Log(), testing::Contains("open"));
  SaveOpened(absl::OkStatus());
  EXPECT_THAT(Log(), ElementsAre("p0 save", "p1 save", "p2 save"));
  Vanish(Server(1));
  EXPECT_THAT(Log(), ElementsAre("abandon", "p0 halt", "p2 halt"));
  for (const int server : {0, 2}) Halted(server);
  ServerJoinsAgain();
  Log();
  Formed();
  EXPECT_THAT(Log(), ElementsAre("w0 servers", "w1 servers", "open"));
}

TEST_F(LeasedServersTest, NoStageBeginsUntilTheServersHaveFormedAGroup) {
  LoseServer1();
  for (const int worker : {0, 1}) UseAll(worker);
  EXPECT_THAT(Log(), Not(testing::Contains("w0 evaluate")));
  for (const int server : {0, 2}) Halted(server);
  ServerJoinsAgain();
  Log();
  Formed();
  EXPECT_THAT(Log(), ElementsAre("w0 servers", "w1 servers", "w0 evaluate", "w1 evaluate"));
}

TEST_F(LeasedServersTest, ServerThatIsLostWhileTheGroupFormsIsReplacedAgain) {
  LoseServer1();
  for (const int server : {0, 2}) Halted(server);
  ServerJoinsAgain();
  Log();
  Actions actions;
  controller_->OnGone(Server(1), 2, now_, actions);
  Take(actions);
  EXPECT_THAT(Log(), ElementsAre("p0 halt", "p2 halt"));
  for (const int server : {0, 2}) Halted(server, 2);
  ServerJoinsAgain(3);
  EXPECT_EQ(LastOrder(&proto::ToTask::has_form).form().group().generation(), 3u);
  Formed(3, 3);
  EXPECT_THAT(LastOrder(&proto::ToTask::has_servers).servers().server_size(), 3);
}

TEST_F(LeasedServersTest, LossOfAServerAndOfItsCopyEndsTheJob) {
  LoseServer1();
  Halted(0);
  Halted(2, 1, /*copy=*/false);
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("lost ps 1"));
  EXPECT_THAT(std::string(end_.message()), HasSubstr("which is to have the copy of the shards of server 1"));
}

TEST_F(LeasedServersTest, LossBeyondTheNumberOfReplacementsEndsTheJob) {
  Begin(
      "workers: 2 strategy { parameter_server { servers: 3 replicas: 2 asynchronous {} } } max_restarts: 1 ");
  Vanish(Worker(0));
  Vanish(Server(1));
  Tick(1);
  Tick(3);
  EXPECT_THAT(std::string(end_.message()), HasSubstr("max_restarts (1) allows no replacement"));
}

TEST_F(LeasedServersTest, ServerThatDoesNotLeaveItsGroupIsGivenUp) {
  LoseServer1();
  Halted(0);
  for (int i = 0; i < 70; ++i) {
    for (const int server : {0, 2}) Say(Server(server), "heartbeat {}");
    for (const int worker : {0, 1}) Say(Worker(worker), "heartbeat {}");
    Tick(0.5);
  }
  EXPECT_EQ(Summary().server_loss_size(), 2);
  EXPECT_THAT(Summary().server_loss(1).reason(), HasSubstr("it did not leave its group within"));
}

}  // namespace
}  // namespace tethys
