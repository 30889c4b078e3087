// Tests local ranks (a worker's number on its host) and groups after losses and replacements, and reports of
// tasks that are silent or behind.
#include "runtime/chief/roster.h"

#include "gmock/gmock.h"
#include "runtime/cluster/group_place.h"
#include "tests/runtime/chief/small_job.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;

class RosterTest : public ::testing::Test {
 protected:
  // Makes worker i join on hosts[i], for each i; then sets up all workers.
  void Start(const std::vector<std::string>& hosts) {
    std::vector<TaskId> workers;
    for (size_t i = 0; i < hosts.size(); ++i) {
      Join(static_cast<int>(i), hosts[i]);
      workers.push_back(Worker(static_cast<int>(i)));
    }
    roster_.AssignLocalRanks(workers);
  }
  void Lose(int worker) { roster_.Lose(Worker(worker)); }
  void Join(int worker, const std::string& host) {
    TaskState& task = roster_.at(Worker(worker));
    task.Begin(Worker(worker), task.member.incarnation() + 1, 0);
    task.member.set_host(host);
    roster_.TakesPart(Worker(worker));
  }
  void BeSetUp(int worker) { roster_.AssignLocalRanks({Worker(worker)}); }
  std::vector<int> LocalRanks(int workers) const {
    std::vector<int> ranks;
    for (int i = 0; i < workers; ++i) ranks.push_back(roster_.at(Worker(i)).member.local_rank());
    return ranks;
  }
  static TaskId Worker(int index) { return {proto::WORKER, index}; }

  Roster roster_{Membership::Of(Plan("workers: 5 strategy { parameter_server { asynchronous {} } }")), 0};
};

TEST_F(RosterTest, LocalRanksFollowIndicesOnEachHost) {
  Start({"a", "b", "a", "a", "b"});
  EXPECT_THAT(LocalRanks(5), ElementsAre(0, 0, 1, 2, 1));
}

TEST_F(RosterTest, AnotherComputes_IgnoresTheGivenWorkerAndLostWorkers) {
  Start({"a", "a"});
  EXPECT_FALSE(roster_.AnotherComputes(Worker(0)));
  roster_.at(Worker(1)).heartbeat.set_computing(true);
  EXPECT_TRUE(roster_.AnotherComputes(Worker(0)));
  EXPECT_FALSE(roster_.AnotherComputes(Worker(1)));
  Lose(1);
  EXPECT_FALSE(roster_.AnotherComputes(Worker(0)));
}

TEST_F(RosterTest, ReplacementGetsTheLocalRankOfTheLostWorker) {
  Start({"a", "a", "a"});
  Lose(1);
  Join(1, "a");
  BeSetUp(1);
  EXPECT_THAT(LocalRanks(3), ElementsAre(0, 1, 2));
}

TEST_F(RosterTest, TwoReplacementsInAnyOrderGetDifferentLocalRanks) {
  Start({"a", "a"});
  Lose(0);
  Lose(1);
  Join(1, "a");
  BeSetUp(1);
  EXPECT_EQ(LocalRanks(2)[1], 0);
  Join(0, "a");
  BeSetUp(0);
  EXPECT_THAT(LocalRanks(2), ElementsAre(1, 0));
}

TEST_F(RosterTest, WorkerLostWithoutReplacementChangesNoOtherLocalRank) {
  Start({"a", "a", "a"});
  Lose(0);
  Lose(2);
  Join(2, "a");
  BeSetUp(2);
  EXPECT_THAT(LocalRanks(3), ElementsAre(0, 1, 0)) << "worker 0 is lost; worker 1 keeps local rank 1";
}

TEST_F(RosterTest, ReplacementsGetLocalRanksInTheOrderOfTheirSetup) {
  Start({"a", "a"});
  Lose(0);
  Lose(1);
  Join(0, "a");
  Join(1, "a");
  BeSetUp(1);
  BeSetUp(0);
  EXPECT_THAT(LocalRanks(2), ElementsAre(1, 0));
}

TEST_F(RosterTest, ReplacementOnAnotherHostGetsAFreeLocalRankOfThatHost) {
  Start({"a", "b", "b"});
  Lose(0);
  Join(0, "b");
  BeSetUp(0);
  EXPECT_THAT(LocalRanks(3), ElementsAre(2, 0, 1));
}

TEST_F(RosterTest, RanksInTheGroupSkipLostWorkers) {
  Start({"a", "b", "a", "b", "b"});
  Lose(1);
  const proto::Group group = roster_.Group();
  EXPECT_EQ(group.generation(), 1);
  EXPECT_EQ(PlaceIn(group, 3).rank, 2);
  EXPECT_EQ(PlaceIn(group, 3).world, 4);
  EXPECT_EQ(PlaceIn(group, 1).rank, WorkerPlace::kNone);
}

TEST_F(RosterTest, FirstOnHostIgnoresLostTasks) {
  Start({"a", "b", "a", "b", "b"});
  EXPECT_TRUE(roster_.FirstOnHost(Worker(0)));
  EXPECT_FALSE(roster_.FirstOnHost(Worker(2)));
  EXPECT_FALSE(roster_.FirstOnHost(Worker(3)));
  Lose(1);
  EXPECT_TRUE(roster_.FirstOnHost(Worker(3)));
  EXPECT_FALSE(roster_.FirstOnHost(Worker(4)));
}

TEST_F(RosterTest, TimeBeforeTheFirstSearchForSilentTasks_DoesNotCountAsSilence) {
  Join(0, "a");
  roster_.at(Worker(0)).last_heard = kSecond;
  const auto silent = [this](int seconds) {
    return roster_.FindSilent(seconds * kSecond, [](TaskId) { return 10 * kSecond; });
  };
  EXPECT_THAT(silent(60), ElementsAre()) << "the chief itself did nothing for a minute";
  for (const int seconds : {62, 64, 66, 68, 70}) EXPECT_THAT(silent(seconds), ElementsAre());
  EXPECT_THAT(silent(72), ElementsAre(Worker(0)));
}

TEST_F(RosterTest, EachSilentTaskHasItsOwnPatience) {
  for (int i = 0; i < 2; ++i) {
    Join(i, "a");
    roster_.at(Worker(i)).last_heard = kSecond;
  }
  const auto patience = [](TaskId id) { return (id.index == 0 ? 1 : 10) * kSecond; };
  std::vector<TaskId> silent;
  for (Nanoseconds now = kSecond; now <= 4 * kSecond; now += 100 * kMillisecond) {
    silent = roster_.FindSilent(now, patience);
  }
  EXPECT_THAT(silent, ElementsAre(Worker(0)));
}

TEST_F(RosterTest, TaskSilentForTwoSecondsIsLate) {
  constexpr Nanoseconds kBegin = 10 * kSecond;
  for (int i = 0; i < 3; ++i) {
    Join(i, "a");
    roster_.at(Worker(i)).last_heard = kBegin;
  }
  EXPECT_THAT(roster_.LateTasks(kBegin + kSecond, true), ElementsAre());
  roster_.at(Worker(0)).last_heard = kBegin + kSecond;
  Lose(2);
  const std::vector<proto::LateTask> late = roster_.LateTasks(kBegin + 2500 * kMillisecond, true);
  ASSERT_EQ(late.size(), 1);
  EXPECT_EQ(late[0].name(), "worker 1 on a");
  EXPECT_EQ(late[0].silent_seconds(), 2.5);
}

TEST_F(RosterTest, WorkerFarBehindIsLateOnlyIfWorkersDoNotRunInLockStep) {
  const int64_t steps[] = {100, 60, 90};
  for (int i = 0; i < 3; ++i) {
    Join(i, "a");
    roster_.at(Worker(i)).last_heard = kSecond;
    roster_.at(Worker(i)).step = steps[i];
  }
  EXPECT_THAT(roster_.LateTasks(kSecond, /*own_pace=*/false), ElementsAre());
  const std::vector<proto::LateTask> late = roster_.LateTasks(kSecond, /*own_pace=*/true);
  ASSERT_EQ(late.size(), 1);
  EXPECT_EQ(late[0].name(), "worker 1 on a");
  EXPECT_EQ(late[0].silent_seconds(), 0);
  EXPECT_EQ(late[0].step(), 60);
  EXPECT_EQ(late[0].usual_step(), 90);
}

}  // namespace
}  // namespace tethys
