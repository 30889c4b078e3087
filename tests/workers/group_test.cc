// Tests jobs in lock step that lose a worker at many different instants and continue. Every result is
// compared, bit by bit, with a run in which the same groups train the same steps without a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/cluster/job_plan.h"
#include "tests/runtime/data/idx_files.h"
#include "tests/workers/device_groups.h"
#include "tests/workers/fake_chief.h"
#include "tests/workers/small_plan.h"

namespace tethys {
namespace {

using testing::DeviceGroups;
using testing::FakeChief;
using testing::WorkerState;

constexpr int64_t kBatch = 24;
constexpr int64_t kSteps = 12;

class GroupTest : public ::testing::TestWithParam<std::string> {
 protected:
  // The plan of a job of `workers` workers: with two servers, or mirrored with this transport.
  proto::JobPlan PlanOf(int workers) const {
    const std::string optimizer = "optimizer { sgd { momentum: 0.9 } learning_rate: 0.1 } ";
    const auto plan = [&](const std::string& strategy, const std::string& more = "") {
      return testing::SmallPlan(data_.idx(), workers, kBatch, strategy, optimizer + more);
    };
    if (!on_gpus()) {
      return on_servers() ? plan("parameter_server { servers: 2 }")
                          : plan("mirrored {}", absl::StrCat("tuning { transport: ", GetParam(), " }"));
    }
    proto::JobPlan on_gpus = plan(on_servers() ? "parameter_server { servers: 2 }" : "mirrored {}",
                                  "elastic { on_loss: CONTINUE }");
    for (int index = 0; index < workers; ++index) {
      const bool on_cpu = index == 0 && GetParam() == "GPUS_AND_A_CPU";
      on_gpus.add_worker_device(on_cpu ? proto::Device::CPU : proto::Device::CUDA);
    }
    return on_gpus;
  }
  static bool on_servers() { return absl::StrContains(GetParam(), "SERVERS"); }
  static bool on_gpus() { return absl::StrContains(GetParam(), "GPU"); }

  // A chief whose workers have late devices (tests/testing/late_device.h) in place of GPUs.
  class Chief : public FakeChief {
   public:
    explicit Chief(proto::JobPlan plan,
                   std::shared_ptr<DeviceGroups> groups = std::make_shared<DeviceGroups>())
        : FakeChief(
              std::move(plan),
              [groups](const TaskOptions& task,
                       const proto::Setup& setup) -> absl::StatusOr<std::unique_ptr<Device>> {
                if (DeviceOf(setup.plan(), task.index) == proto::Device::CPU) return CreateCpuDevice(1);
                return groups->CreateDevice(DeviceName(task));
              },
              [groups](const TaskOptions& task) { groups->Kill(DeviceName(task)); }) {}

   private:
    static std::string DeviceName(const TaskOptions& task) {
      return absl::StrCat("GPU ", task.index, " of process ", task.incarnation);
    }
  };

  // Starts the workers `members` of a job of three. The first group of a job with servers has all workers.
  static void StartSome(FakeChief& chief, std::vector<int> members) {
    if (on_servers()) members = {0, 1, 2};
    for (const int index : members) chief.Start(index);
    if (on_servers()) {
      ASSERT_TRUE(chief.Form(members));
    }
  }

  // Trains as `disturbed` did, but without losses. Returns the states of the last group's members.
  static std::map<int, WorkerState> TrainUndisturbed(const proto::JobPlan& plan, const FakeChief& disturbed) {
    Chief chief(plan);
    std::vector<int> before;
    std::vector<FakeChief::Phase> phases = disturbed.phases();
    if (phases.back().begin == disturbed.step()) phases.pop_back();  // The last group made no step.
    for (size_t i = 0; i < phases.size(); ++i) {
      for (const int index : phases[i].members) {
        if (std::find(before.begin(), before.end(), index) == before.end()) chief.Start(index);
      }
      before = phases[i].members;
      chief.Train(before, i + 1 < phases.size() ? phases[i + 1].begin : disturbed.step());
    }
    EXPECT_EQ(chief.phases(), phases);
    return chief.StatesOf(before);
  }

  // Expects all members of the last group of `chief` to have the state of an undisturbed run. `own`: the
  // workers whose moving statistics are compared, too.
  static void ExpectUndisturbed(const proto::JobPlan& plan, FakeChief& chief, const std::vector<int>& own) {
    const std::map<int, WorkerState> expected = TrainUndisturbed(plan, chief);
    const std::map<int, WorkerState> states = chief.StatesOf(chief.phases().back().members);
    ASSERT_FALSE(states.empty());
    for (const auto& [index, state] : states) {
      EXPECT_EQ(state.parts.size(), 2) << "parameters and velocities";
      EXPECT_EQ(state.parts, states.begin()->second.parts) << "worker " << index;
      EXPECT_EQ(state.parts, expected.at(index).parts) << "worker " << index;
      if (std::find(own.begin(), own.end(), index) == own.end()) continue;
      EXPECT_FALSE(state.statistics.empty());
      EXPECT_EQ(state.statistics, expected.at(index).statistics) << "worker " << index;
    }
  }

  const testing::TempDirectory directory_;
  const proto::Data data_ = testing::WriteIdxData(directory_, /*train=*/kBatch* kSteps, /*test=*/0);
};

INSTANTIATE_TEST_SUITE_P(Media, GroupTest,
                         ::testing::Values("TCP", "SHARED_MEMORY", "SERVERS", "GPUS_WITH_SERVERS",
                                           "GPUS_AND_A_CPU", "GPUS"),
                         [](const auto& transport) { return transport.param; });

class OnGpus : public GroupTest {};
INSTANTIATE_TEST_SUITE_P(Media, OnGpus, ::testing::Values("GPUS"),
                         [](const auto& medium) { return medium.param; });

TEST_P(GroupTest, NextGroupContinuesWithParametersAndSlotsOfTheFormerGroup) {
  const proto::JobPlan plan = PlanOf(3);
  Chief changing(plan), steady(plan);
  for (FakeChief* chief : {&changing, &steady}) {
    for (int index = 0; index < 3; ++index) chief->Start(index);
  }
  changing.Train({0, 1, 2}, 4);
  changing.Train({0, 1, 2}, 8);
  steady.Train({0, 1, 2}, 8);
  for (int index = 0; index < 3; ++index) EXPECT_EQ(changing.StateOf(index), steady.StateOf(index));
}

TEST_P(GroupTest, SmallerGroupTrainsLikeAJobOfItsSize) {
  const proto::JobPlan of_three = PlanOf(3), of_two = PlanOf(2);
  Chief three(of_three), two(of_two);
  StartSome(three, {0, 2});
  for (const int index : {0, 1}) two.Start(index);
  three.Train({0, 2}, 5);
  two.Train({0, 1}, 5);
  EXPECT_EQ(three.StateOf(0), two.StateOf(0));
  EXPECT_EQ(three.StateOf(2), two.StateOf(1));
}

TEST_P(GroupTest, WorkerThatJoinsTheGroupGetsTheStateAndTheMeanStatistics) {
  const proto::JobPlan plan = PlanOf(3);
  Chief chief(plan);
  StartSome(chief, {0, 1});
  chief.Train({0, 1}, 5);
  const WorkerState first = chief.StateOf(0), second = chief.StateOf(1);
  chief.Start(2);
  std::vector<int> all = {0, 1, 2};
  ASSERT_TRUE(chief.Halt(all));
  EXPECT_FALSE(chief.answers().at(2).halted().has_applied());
  EXPECT_EQ(chief.answers().at(1).halted().applied(), 5);
  ASSERT_TRUE(chief.Form(all));
  EXPECT_EQ(chief.behind(), 1);
  const WorkerState newcomer = chief.StateOf(2);
  EXPECT_EQ(newcomer.parts, first.parts);
  if (on_servers()) {
    // With servers, the new worker gets its statistics with Setup, so only its parameters are compared.
    EXPECT_EQ(chief.ParametersOf(2), chief.ParametersOf(0));
    return;
  }
  // Runs an empty segment, after which the worker sends its statistics.
  chief.RunNothing(all);
  const std::vector<float> mean = chief.StateOf(2).statistics;
  ASSERT_EQ(mean.size(), first.statistics.size());
  ASSERT_FALSE(mean.empty());
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_EQ(mean[i], (first.statistics[i] + second.statistics[i]) / 2) << i;
  }
}

// ----------------------------------------------------------------------------------------------- losses

// Ends a worker at a random instant between 0 and `most` after `work` has begun. Returns how long `work`
// took.
Nanoseconds EndWithin(Nanoseconds most, bool killed, testing::QueueSession& session, std::mt19937& random,
                      const std::function<void()>& work) {
  const auto delay = std::uniform_int_distribution<Nanoseconds>(0, most)(random);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::nanoseconds(delay));
    killed ? session.Kill() : session.Fail();
  });
  const MonotonicClock clock;
  const Nanoseconds begin = clock.Now();
  work();
  const Nanoseconds end = clock.Now();
  killer.join();
  return end - begin;
}

TEST_P(GroupTest, SurvivingWorkersContinueAfterAWorkerLossAtAnyInstant) {
  const proto::JobPlan plan = PlanOf(3);
  const MonotonicClock clock;
  std::mt19937 random(1);
  // The time that training takes without a loss. In later rounds a worker is ended within this time.
  Nanoseconds undisturbed = 0;
  int losses = 0, copies = 0;
  for (int round = 0; round < (on_gpus() ? 20 : 40); ++round) {
    SCOPED_TRACE(round);
    Chief chief(plan);
    for (int index = 0; index < 3; ++index) chief.Start(index);
    chief.Train({0, 1, 2}, 1);
    const Nanoseconds begin = clock.Now();
    const auto train = [&] { chief.Train({0, 1, 2}, kSteps); };
    if (round == 0) {
      train();
      undisturbed = clock.Now() - begin;
      continue;
    }
    chief.PauseBetweenHalts(kMillisecond / 2);
    const Nanoseconds took =
        EndWithin(undisturbed, /*killed=*/round % 2 == 0, chief.session(round % 3), random, train);
    EXPECT_EQ(chief.step(), kSteps);
    if (chief.phases().back().members.size() == 2) {
      ++losses;
    } else {
      // The instant was too late. On a busy machine, an earlier round may have been slower than this one.
      undisturbed = took;
    }
    copies += chief.behind();
    ExpectUndisturbed(plan, chief, {0, 1, 2});
  }
  EXPECT_GT(losses, 5) << "the instants are too late";
  RecordProperty("losses", losses);
  RecordProperty("copies", copies);
}

TEST_P(GroupTest, GroupSurvivesASecondWorkerLossAtAnyInstantAfterAReplacementJoined) {
  const proto::JobPlan plan = PlanOf(3);
  const MonotonicClock clock;
  std::mt19937 random(2);
  Nanoseconds undisturbed = 0;
  for (int round = 0; round < (on_gpus() ? 15 : 30); ++round) {
    SCOPED_TRACE(round);
    Chief chief(plan);
    for (int index = 0; index < 3; ++index) chief.Start(index);
    chief.Train({0, 1, 2}, 3);
    chief.session(1).Kill();
    chief.Train({0, 1, 2}, 5);
    EXPECT_EQ(chief.phases().back().members, std::vector<int>({0, 2}));
    chief.Start(1);
    // The second loss comes while the group forms, while the replacement copies the state, or in a step.
    const Nanoseconds begin = clock.Now();
    const auto train = [&] { chief.Train({0, 1, 2}, kSteps); };
    if (round == 0) {
      train();
      undisturbed = clock.Now() - begin;
    } else {
      EndWithin(undisturbed, /*killed=*/round % 2 == 0, chief.session(round % 3), random, train);
    }
    EXPECT_EQ(chief.step(), kSteps);
    ExpectUndisturbed(plan, chief, {});
  }
}

TEST_P(GroupTest, ReplacingAWorkerBetweenStepsChangesNoBitOfTheResult) {
  const proto::JobPlan plan = PlanOf(3);
  Chief disturbed(plan), steady(plan);
  for (FakeChief* chief : {&disturbed, &steady}) {
    for (int index = 0; index < 3; ++index) chief->Start(index);
  }
  disturbed.Train({0, 1, 2}, 4);
  disturbed.session(2).Kill();
  std::vector<int> survivors = {0, 1};
  ASSERT_TRUE(disturbed.Halt(survivors));
  disturbed.Start(2);
  disturbed.Train({0, 1, 2}, kSteps);
  steady.Train({0, 1, 2}, kSteps);
  for (int index = 0; index < 3; ++index) {
    EXPECT_EQ(disturbed.StateOf(index).parts, steady.StateOf(index).parts) << index;
  }
}

// The process of such a worker ends: its GPU cannot be used any more.
TEST_P(OnGpus, WorkerWhoseGpuDoesNotEndItsWork_FailsAndIsReplaced) {
  const proto::JobPlan plan = PlanOf(3);
  const auto groups = std::make_shared<DeviceGroups>();
  Chief chief(plan, groups);
  for (int index = 0; index < 3; ++index) chief.Start(index);
  chief.Train({0, 1, 2}, 4);
  chief.session(2).Kill();
  groups->HangAborts("GPU 1 of process 1");
  chief.ExpectFailure(1);
  chief.Train({0, 1}, 6);
  EXPECT_TRUE(chief.failing().empty());
  EXPECT_EQ(chief.phases().back().members, std::vector<int>({0}));
  for (const int index : {1, 2}) chief.Start(index);
  chief.Train({0, 1, 2}, kSteps);
  ExpectUndisturbed(plan, chief, {});
}

TEST_P(GroupTest, WorkerWhoseSetUpFails_ReportsTheReasonToTheChief) {
  proto::JobPlan plan = PlanOf(2);
  plan.mutable_job()->mutable_data()->mutable_idx()->set_train_images("/nowhere/images");
  testing::Inbox inbox;
  testing::QueueSession session(0, 1, inbox);
  const MonotonicClock clock;
  WorkerCourse course(0);
  OrderReader orders(session, course);
  const std::unique_ptr<RingListener> listener = *RingListener::Listen("127.0.0.1");
  const TaskOptions options;
  const std::unique_ptr<TaskLife> life = CreateWorkerLife(options, session, *listener, clock, course, orders);
  proto::ToTask order;
  *order.mutable_setup()->mutable_plan() = plan;
  session.Deliver(order);
  EXPECT_FALSE(LiveAsTask(options, session, clock, listener->address(), orders, *life).ok());
  EXPECT_TRUE(inbox.Take().message.has_join());
  EXPECT_THAT(inbox.Take().message.failure().message(), ::testing::HasSubstr("/nowhere/images"));
}

}  // namespace
}  // namespace tethys
