// Tests that a worker whose GPU exchanges gradients with other GPUs leaves its group with the parameters of
// the steps that it says it has made: at every point of a step, and although the sums of the steps in flight
// are spoilt when the work ends. Late devices (tests/testing/late_device.h) stand for GPUs.
#include <thread>

#include "collectives/stream_mirrored_strategy.h"
#include "gmock/gmock.h"
#include "tests/workers/device_groups.h"
#include "tests/workers/replica.h"

namespace tethys {
namespace {

using testing::DeviceGroups;

absl::Status Reason() { return absl::AbortedError("the group of workers changes"); }

// Rank 0 of a group of devices. The other ranks have joined the group and give no gradients.
class Worker {
 public:
  explicit Worker(int world) {
    auto device = groups_.CreateDevice("GPU 0");
    StreamGroup group{.id = device->NewGroupId().value(), .world_size = world, .clock = &TestClock()};
    std::vector<std::thread> joining;
    others_.resize(world - 1);
    for (int rank = 1; rank < world; ++rank) {
      joining.emplace_back([this, group, rank]() mutable {
        group.rank = rank;
        others_[rank - 1] = groups_.CreateDevice(absl::StrCat("GPU ", rank))->JoinGroup(group).value();
      });
    }
    auto communicator = device->JoinGroup(group).value();
    for (std::thread& thread : joining) thread.join();
    replica_.emplace(std::move(device), 0, 1, Replica::Options(), NormalisedModel());
    StreamMirroredOptions options{.bucket_bytes = 256, .step_timeout = 3600 * kSecond, .clock = &TestClock()};
    const absl::Status attached =
        replica().Attach(CreateStreamMirroredStrategy(std::move(communicator), replica_->MakeUpdate(),
                                                      replica_->device(), replica_->stream(), options)
                             .value());
    EXPECT_TRUE(attached.ok()) << attached;
  }
  ~Worker() {
    EXPECT_TRUE(replica().EndWork().ok());
    replica().Detach();
  }

  Replica& replica() { return replica_->replica(); }
  TestReplica& test() { return *replica_; }
  DeviceGroups& groups() { return groups_; }

  // Enqueues a step, and waits for the step before.
  absl::Status Step(int64_t step) {
    const int64_t first = step % 3 * kRows;
    replica().loader().Announce(nullptr, {first, first + kRows});
    return replica().Step({.step = step, .sample_count = kRows, .global_sample_count = kRows});
  }

  // Parameters, slots and moving statistics, without those of the step that is in flight.
  std::vector<std::vector<float>> State() {
    std::vector<std::vector<float>> state;
    for (size_t part = 0; part < replica().Parts().size(); ++part) state.push_back(test().Part(part));
    state.push_back(replica().ReadStatistics().value());
    return state;
  }

 private:
  DeviceGroups groups_;
  std::vector<std::unique_ptr<StreamCommunicator>> others_;
  absl::optional<TestReplica> replica_;
};

// The state after each of the first steps on a CPU.
std::vector<std::vector<std::vector<float>>> StatesOnTheCpu(int64_t steps) {
  TestReplica cpu(CreateCpuDevice(1).value(), 0, 1, {}, NormalisedModel());
  EXPECT_TRUE(cpu.replica().Attach(cpu.MakeLocal()).ok());
  std::vector<std::vector<std::vector<float>>> states;
  for (int64_t step = 0; step <= steps; ++step) {
    EXPECT_TRUE(step == 0 || cpu.Steps(step - 1, step).ok());
    states.push_back({cpu.Part(0), cpu.Part(1), cpu.replica().ReadStatistics().value()});
  }
  return states;
}

TEST(HaltedSteps, StepsWhoseSumsAreSpoiltChangeNothing) {
  const auto states = StatesOnTheCpu(1);
  Worker worker(2);
  std::thread interrupter([&] {
    while (worker.groups().given() == 0) std::this_thread::yield();
    worker.replica().strategy()->Interrupt(Reason());
  });
  absl::Status status;
  for (int64_t step = 0; step < 3 && status.ok(); ++step) status = worker.Step(step);
  interrupter.join();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  ASSERT_TRUE(worker.replica().HaltSteps().ok());
  EXPECT_FALSE(worker.replica().made_step().has_value());
  EXPECT_EQ(worker.replica().computed_step(), 0);
  EXPECT_EQ(worker.groups().spoilt(), 0) << "the work ended before other workers have halted";
  ASSERT_TRUE(worker.replica().EndWork().ok());
  EXPECT_GT(worker.groups().spoilt(), 0);
  EXPECT_EQ(worker.State(), states[0]);
  // Another worker may have made step 0. This worker then needs its own moving statistics of step 0, although
  // the device has also computed step 1.
  EXPECT_EQ(worker.replica().StatisticsOfComputedStep().value(), states[1].back());
}

// Halts a worker whose device has run `pieces` pieces of the work of step 1.
TEST(HaltedSteps, AtEveryPointOfAStepTheCountAgreesWithTheParameters) {
  const auto states = StatesOnTheCpu(2);
  bool all_run = false;
  int made = 0, refused = 0;
  for (int pieces = 0; !all_run; ++pieces) {
    SCOPED_TRACE(pieces);
    Worker worker(1);
    ASSERT_TRUE(worker.Step(0).ok());
    ASSERT_TRUE(worker.replica().Finish().ok());
    ASSERT_TRUE(worker.Step(1).ok());
    const std::unique_ptr<Event> end = worker.test().device().CreateEvent().value();
    ASSERT_TRUE(end->Record(worker.test().stream()).ok());
    for (int i = 0; i < pieces && !all_run; ++i) all_run = end->Happened().value();
    ASSERT_TRUE(worker.replica().HaltSteps().ok());
    const int64_t steps = worker.replica().made_step().value() + 1;
    ASSERT_TRUE(worker.replica().EndWork().ok());
    EXPECT_EQ(worker.State(), states[steps]);
    proto::StepRecords records;
    worker.replica().recorder().Drain(records);
    EXPECT_EQ(records.record_size(), steps);
    if (steps == 2) {
      ++made;
    } else {
      ++refused;
      EXPECT_EQ(made, 0) << "the step was made at an earlier point";
      EXPECT_EQ(worker.replica().computed_step(), 1);
      EXPECT_EQ(worker.replica().StatisticsOfComputedStep().value(), states[2].back());
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(made, 2) << "the device must complete an update that it has begun";
}

TEST(HaltedSteps, NoStepBeginsAfterTheHalt) {
  Worker worker(1);
  ASSERT_TRUE(worker.replica().HaltSteps().ok());
  EXPECT_TRUE(absl::IsAborted(worker.Step(0)));
  EXPECT_FALSE(worker.replica().made_step().has_value());
}

TEST(HaltedSteps, GraphsAreDestroyedBeforeTheWorkEnds) {
  Worker worker(1);
  for (int64_t step = 0; step < 4; ++step) ASSERT_TRUE(worker.Step(step).ok());
  EXPECT_GT(testing::LiveGraphs(worker.test().device()), 0);
  ASSERT_TRUE(worker.replica().EndWork().ok());
  EXPECT_EQ(testing::LiveGraphs(worker.test().device()), 0);
}

}  // namespace
}  // namespace tethys
