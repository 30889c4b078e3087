// Tests Trainer without a chief: training depends on the worker's rank in its group, not on the worker's
// index.
#include "workers/trainer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/cluster/job_plan.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/runtime/cluster/scripted_session.h"
#include "tests/runtime/data/idx_files.h"
#include "tests/workers/small_plan.h"

namespace tethys {
namespace {

constexpr int64_t kSegment = 24;  // The segment on which a group trains has one global batch.

// A session that keeps the parameters which are saved through it.
class SavingSession final : public testing::ScriptedSession {
 public:
  absl::Status WriteCheckpoint(int64_t, Source source) override {
    return source([&](int slot, int64_t, absl::Span<const float> values) {
      if (slot == 0) parameters.insert(parameters.end(), values.begin(), values.end());
      return absl::OkStatus();
    });
  }
  std::vector<float> parameters;
};

// The parameters and the moving statistics of a worker after training.
struct Trained {
  std::vector<float> parameters;
  std::vector<float> statistics;
};

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    for (int i = 0; i < 3; ++i) listeners_.push_back(*RingListener::Listen("127.0.0.1"));
  }

  // The plan of a mirrored job of `workers` workers.
  proto::JobPlan PlanOf(int workers) const {
    return testing::MirroredPlan(data_.idx(), workers, kSegment, "optimizer { sgd {} learning_rate: 0.1 }");
  }

  // The group of the workers with these indices.
  proto::Group GroupOf(const std::vector<int>& workers) const {
    proto::Group group;
    group.set_generation(4);
    for (const int index : workers) {
      proto::Member& member = *group.add_member();
      member.set_role(proto::WORKER);
      member.set_index(index);
      member.set_incarnation(1);
      member.set_host("here");
      member.set_data_address(listeners_[index]->address());
    }
    return group;
  }

  // Trains the workers with these indices as one group, on the first kSegment positions of an epoch. Returns
  // each worker's result, indexed by rank.
  std::vector<Trained> Train(const proto::JobPlan& plan, const std::vector<int>& workers) {
    std::vector<Trained> trained(workers.size());
    OnRanks(static_cast<int>(workers.size()),
            [&](int rank) { TrainWorker(plan, workers[rank], GroupOf(workers), trained[rank]); });
    return trained;
  }

  static proto::ToTask SetupOf(const proto::JobPlan& plan) {
    const VariableSet statistics = StatisticsOf(plan).value();
    std::vector<float> values(statistics.arena_size());
    statistics.FillInitialValues(plan.job().seed(), {0, statistics.arena_size()}, values.data());
    proto::ToTask order;
    proto::Setup& setup = *order.mutable_setup();
    *setup.mutable_plan() = plan;
    setup.mutable_statistics()->Assign(values.begin(), values.end());
    setup.set_seconds_left(600);
    return order;
  }

  std::vector<std::unique_ptr<RingListener>> listeners_;
  const MonotonicClock clock_;

 private:
  void TrainWorker(const proto::JobPlan& plan, int index, const proto::Group& group, Trained& trained) {
    TaskOptions task;
    task.index = index;
    task.token = token_;
    SavingSession session;
    WorkerCourse course(index);
    OrderReader orders(session, course);
    const proto::ToTask setup = SetupOf(plan);
    ASSERT_TRUE(course.OnOrder(setup).ok());
    GroupInterruption interruption;
    const auto trainer = Trainer::Create(task, setup.setup(), session, interruption, clock_);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    course.OnDone();
    proto::ToTask form;
    *form.mutable_form()->mutable_group() = group;
    ASSERT_TRUE(course.OnOrder(form).ok());
    proto::Formed formed;
    const absl::Status joined = (*trainer)->JoinGroup(form.form(), *listeners_[index], formed);
    ASSERT_TRUE(joined.ok()) << joined;
    course.OnDone();
    proto::ToTask run;
    run.mutable_run()->set_end(kSegment);
    run.mutable_run()->set_generation(group.generation());
    ASSERT_TRUE(course.OnOrder(run).ok());
    const absl::Status ran = (*trainer)->RunSegment(course, orders);
    ASSERT_TRUE(ran.ok()) << ran;
    trained.statistics = (*trainer)->ReadStatistics().value();
    proto::Save save;
    save.set_count(VariablesOf(plan)->arena_size());
    ASSERT_TRUE((*trainer)->Save(save).ok());
    trained.parameters = session.parameters;
  }

  const testing::TempDirectory directory_;
  const proto::Data data_ = testing::WriteIdxData(directory_, /*train=*/40, /*test=*/0);
  const JobToken token_ = JobToken::Random();
};

TEST_F(TrainerTest, GroupOfTwoOfThreeWorkersTrainsLikeAJobOfTwo) {
  const std::vector<Trained> of_three = Train(PlanOf(3), {0, 2});
  const std::vector<Trained> of_two = Train(PlanOf(2), {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(of_two[rank].parameters.empty());
    EXPECT_FALSE(of_two[rank].statistics.empty());
    EXPECT_EQ(of_three[rank].parameters, of_two[rank].parameters) << rank;
    EXPECT_EQ(of_three[rank].statistics, of_two[rank].statistics) << rank;
  }
}

TEST_F(TrainerTest, GroupThatDoesNotContainTheTrainersWorkerIsRefused) {
  TaskOptions task;
  testing::ScriptedSession session;
  GroupInterruption interruption;
  const auto trainer = Trainer::Create(task, SetupOf(PlanOf(2)).setup(), session, interruption, clock_);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  proto::Form form;
  *form.mutable_group() = GroupOf({1});
  proto::Formed formed;
  EXPECT_EQ(StatusText((*trainer)->JoinGroup(form, *listeners_[0], formed)),
            "INTERNAL: group 4, which the chief formed, lacks this worker");
}

}  // namespace
}  // namespace tethys
