// Tests mirrored workers that run as threads. Together they must do what one process does with the sum of all
// their gradients.
#include "collectives/mirrored_strategy.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "runtime/tensor/arena.h"
#include "tests/collectives/ring_fixture.h"
#include "tests/testing/allocation_counter.h"
#include "tests/testing/happened_event.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NoStream final : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(int64_t elements) : arena_(elements) {}
  void* data() override { return arena_.data(); }
  int64_t bytes() const override { return arena_.size() * static_cast<int64_t>(sizeof(float)); }

 private:
  Arena arena_;
};

// Subtracts learning_rate * gradient_scale * gradient_sum from the parameters, over the whole arena.
class PlainOptimizer final : public Optimizer {
 public:
  explicit PlainOptimizer(int64_t size) : size_(size) {}
  absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t elements) override {
    std::vector<std::unique_ptr<Buffer>> slots;
    slots.push_back(std::make_unique<HostBuffer>(elements));
    return slots;
  }
  void SetRates(int, const Update& update) override {
    factor_ = static_cast<float>(update.learning_rate * update.gradient_scale);
  }
  absl::Status Enqueue(Stream&, int, const Update&, float* parameters, const float* gradient_sums,
                       absl::Span<float* const>) override {
    finite_ = std::all_of(gradient_sums, gradient_sums + size_, [](float sum) { return std::isfinite(sum); });
    for (int64_t i = 0; finite_ && i < size_; ++i) parameters[i] -= factor_ * gradient_sums[i];
    return absl::OkStatus();
  }
  const int32_t* refused() const override { return nullptr; }
  absl::Status Check(int) const override {
    return finite_ ? absl::OkStatus() : absl::FailedPreconditionError("a gradient is not finite");
  }

 private:
  const int64_t size_;
  bool finite_ = true;
  float factor_ = 0;
};

constexpr int64_t kArena = 256;
const std::vector<Range> kReadyOrder = {{192, 64}, {64, 128}, {0, 64}};

// One worker: its arenas and its strategy.
class Worker {
 public:
  explicit Worker(std::unique_ptr<Communicator> communicator)
      : rank_(communicator->rank()), world_(communicator->world_size()) {
    proto::Optimizer config;
    config.set_learning_rate(0.5);
    ReplicaUpdate update(std::make_unique<PlainOptimizer>(kArena), LearningRateSchedule(config, {}), stream_,
                         TestClock());
    strategy_ = *CreateMirroredStrategy(std::move(communicator), std::move(update),
                                        {.bucket_bytes = 128 * sizeof(float)});
    const StepArenas arenas{parameters_.data(), gradients_.data(), kArena};
    EXPECT_TRUE(strategy_->Prepare(arenas, kReadyOrder).ok());
  }

  // Runs a step in which every gradient sum of this worker is `gradient`.
  absl::StatusOr<StepOutcome> Step(int64_t step, float gradient, int64_t samples, int64_t global_samples) {
    const StepInfo info{.step = step, .sample_count = samples, .global_sample_count = global_samples};
    TETHYS_RETURN_IF_ERROR(strategy_->BeginStep(info));
    for (size_t i = 0; i < kReadyOrder.size(); ++i) {
      for (float& sum : gradients_.Slice(kReadyOrder[i])) sum = gradient;
      TETHYS_RETURN_IF_ERROR(strategy_->GradientReady(static_cast<int64_t>(i), HappenedEvent()));
    }
    return EndStep(*strategy_, info);
  }

  int rank() const { return rank_; }
  int world() const { return world_; }
  Strategy& strategy() { return *strategy_; }
  absl::Span<const float> parameters() const { return parameters_.span(); }

 private:
  const int rank_;
  const int world_;
  NoStream stream_;
  Arena parameters_{kArena};
  Arena gradients_{kArena};
  std::unique_ptr<Strategy> strategy_;
};

std::vector<absl::Status> RunWorkers(int world, const std::function<absl::Status(Worker&)>& body) {
  return InRing(world, [&](std::unique_ptr<Communicator>& communicator) {
    Worker worker(std::move(communicator));
    return body(worker);
  });
}

class Mirrored : public ::testing::TestWithParam<int> {};

TEST_P(Mirrored, ParametersEqualThoseOfOneProcessWithAllGradients) {
  const int world = GetParam();
  ExpectAllOk(RunWorkers(world, [&](Worker& worker) {
    float expected = 0;
    for (int64_t step = 0; step < 20; ++step) {
      // Rank r has r+1 samples, whose gradients sum to (r+1) (step+1).
      const int64_t global_samples = world * (world + 1) / 2;
      const int64_t samples = worker.rank() + 1;
      const auto gradient = static_cast<float>(samples * (step + 1));
      const auto outcome = worker.Step(step, gradient, samples, global_samples);
      TETHYS_RETURN_IF_ERROR(outcome.status());
      EXPECT_EQ(outcome->version, step + 1);
      EXPECT_EQ(outcome->bytes_out > 0, world > 1);
      expected -= 0.5f * static_cast<float>(step + 1);
    }
    for (const float parameter : worker.parameters()) EXPECT_NEAR(parameter, expected, 1e-4);
    return absl::OkStatus();
  }));
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, Mirrored, ::testing::Values(1, 2, 3, 5));

TEST(MirroredStrategy, EverySixteenthStepMeasuresSquaresOfLocalAndSummedGradients) {
  ExpectAllOk(RunWorkers(3, [](Worker& worker) {
    for (int64_t step = 0; step < 33; ++step) {
      const auto gradient = static_cast<float>(worker.rank() + 1);
      const auto outcome = worker.Step(step, gradient, 1, 3);
      TETHYS_RETURN_IF_ERROR(outcome.status());
      const bool measured = step % 16 == 0;
      EXPECT_EQ(outcome->own_square, measured ? kArena * gradient * gradient : 0) << step;
      EXPECT_EQ(outcome->sum_square, measured ? kArena * 36 : 0) << step;
    }
    return absl::OkStatus();
  }));
}

TEST(MirroredStrategy, WorkerWithoutSamplesMakesTheSameUpdate) {
  ExpectAllOk(RunWorkers(3, [](Worker& worker) {
    const bool idle = worker.rank() == 2;
    const auto outcome = worker.Step(0, idle ? 0.0f : 4.0f, idle ? 0 : 2, 4);
    TETHYS_RETURN_IF_ERROR(outcome.status());
    for (const float parameter : worker.parameters()) EXPECT_EQ(parameter, -1.0f);
    return absl::OkStatus();
  }));
}

TEST(MirroredStrategy, StepAllocatesNothingOnTheTrainingThread) {
  ExpectAllOk(InRing(3, [](std::unique_ptr<Communicator>& communicator) {
    Worker worker(std::move(communicator));
    TETHYS_RETURN_IF_ERROR(worker.Step(0, 1.0f, 1, 3).status());
    const int64_t before = tethys::testing::ThreadAllocations();
    for (int64_t step = 1; step < 10; ++step) TETHYS_RETURN_IF_ERROR(worker.Step(step, 1.0f, 1, 3).status());
    EXPECT_EQ(tethys::testing::ThreadAllocations(), before);
    return absl::OkStatus();
  }));
}

TEST(MirroredStrategy, NonFiniteGradientFailsAllWorkersNamingTheStep) {
  const auto answers = RunWorkers(3, [](Worker& worker) {
    TETHYS_RETURN_IF_ERROR(worker.Step(16, 0.0f, 1, 3).status());
    const absl::Status status = worker.Step(17, worker.rank() == 1 ? NAN : 1.0f, 1, 3).status();
    for (const float parameter : worker.parameters()) EXPECT_EQ(parameter, 0.0f);
    return status;
  });
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(answer.message()), HasSubstr("step 17"));
  }
}

TEST(MirroredStrategy, LostWorkerIsNamedInErrorsOfAllOthers) {
  auto answers = RunWorkers(3, [](Worker& worker) {
    TETHYS_RETURN_IF_ERROR(worker.Step(0, 1.0f, 1, 3).status());
    if (worker.rank() == 1) return absl::OkStatus();
    return worker.Step(1, 1.0f, 1, 3).status();
  });
  answers.erase(answers.begin() + 1);
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kUnavailable) << StatusText(answer);
    EXPECT_THAT(std::string(answer.message()),
                AllOf(HasSubstr("step 1"), HasSubstr("lost rank 1 (worker 1 on host1)")));
  }
}

const absl::Status kReason = absl::AbortedError("the group of workers changes");

// Rank 1 is stopped: it makes no call until rank 0 has returned.
TEST(MirroredStrategy, Interrupt_EndsTheStepThatWaitsForAStoppedWorker) {
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  const auto answers = RunWorkers(2, [&](Worker& worker) {
    if (worker.rank() == 1) return end.wait(), absl::OkStatus();
    std::thread interrupts([&] { worker.strategy().Interrupt(kReason); });
    const absl::Status status = worker.Step(0, 1.0f, 1, 2).status();
    interrupts.join();
    for (const float parameter : worker.parameters()) EXPECT_EQ(parameter, 0.0f);
    EXPECT_EQ(worker.strategy().BeginStep({.step = 1, .global_sample_count = 2}), kReason);
    EXPECT_EQ(worker.strategy().Refresh(), kReason);
    ended.set_value();
    return status;
  });
  EXPECT_EQ(answers[0].code(), kReason.code());
  EXPECT_THAT(std::string(answers[0].message()), HasSubstr(std::string(kReason.message())));
}

TEST(MirroredStrategy, Interrupt_EndsBackwardAtTheNextRange) {
  ExpectAllOk(RunWorkers(1, [](Worker& worker) {
    const StepInfo step{.step = 0, .sample_count = 1, .global_sample_count = 1};
    TETHYS_RETURN_IF_ERROR(worker.strategy().BeginStep(step));
    TETHYS_RETURN_IF_ERROR(worker.strategy().GradientReady(0, HappenedEvent()));
    worker.strategy().Interrupt(kReason);
    EXPECT_EQ(worker.strategy().GradientReady(1, HappenedEvent()).code(), kReason.code());
    return absl::OkStatus();
  }));
}

TEST(MirroredStrategy, Interrupt_KeepsTheOutcomeOfACompletedStep) {
  ExpectAllOk(RunWorkers(1, [](Worker& worker) {
    const StepInfo step{.step = 0, .sample_count = 1, .global_sample_count = 1};
    TETHYS_RETURN_IF_ERROR(worker.strategy().BeginStep(step));
    for (int64_t i = 0; i < std::ssize(kReadyOrder); ++i) {
      TETHYS_RETURN_IF_ERROR(worker.strategy().GradientReady(i, HappenedEvent()));
    }
    TETHYS_RETURN_IF_ERROR(worker.strategy().EnqueueEnd(0));
    worker.strategy().Interrupt(kReason);
    EXPECT_EQ(worker.strategy().BeginStep(step), kReason);
    const absl::StatusOr<StepOutcome> outcome = worker.strategy().AwaitEnd(step, HappenedEvent());
    TETHYS_RETURN_IF_ERROR(outcome.status());
    EXPECT_EQ(outcome->version, 1);
    return absl::OkStatus();
  }));
}

TEST(MirroredStrategy, Interrupt_EndsASumForALayer) {
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  const auto answers = InRing(2, [&](std::unique_ptr<Communicator>& communicator) -> absl::Status {
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> layers, communicator->Split(0));
    if (communicator->rank() == 1) return end.wait(), absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(
        const std::unique_ptr<Strategy> strategy,
        CreateMirroredStrategy(std::move(communicator), absl::nullopt, {}, std::move(layers)));
    std::thread interrupts([&] { strategy->Interrupt(kReason); });
    NoStream stream;
    float sum = 1;
    const absl::Status status = strategy->worker_sums()->AllReduce(stream, &sum, 1);
    interrupts.join();
    ended.set_value();
    return status;
  });
  EXPECT_EQ(answers[0].code(), kReason.code()) << StatusText(answers[0]);
}

TEST(MirroredStrategy, PreparingAgain_KeepsOptimizerSlots) {
  ExpectAllOk(RunWorkers(1, [](Worker& worker) {
    const auto before = worker.strategy().slots();
    EXPECT_EQ(before.size(), 1);
    EXPECT_EQ(before[0].size(), kArena);
    before[0][3] = 5.0f;
    std::vector<float> parameters(kArena), gradients(kArena);
    const StepArenas arenas{parameters.data(), gradients.data(), kArena};
    TETHYS_RETURN_IF_ERROR(worker.strategy().Prepare(arenas, kReadyOrder).status());
    EXPECT_EQ(worker.strategy().slots()[0][3], 5.0f);
    return absl::OkStatus();
  }));
}

TEST(MirroredStrategy, RefusesRangesOutsideTheArena) {
  ExpectAllOk(RunWorkers(1, [](Worker& worker) {
    std::vector<float> memory(kArena);
    const std::vector<Range> beyond = {{kArena - 8, 16}};
    const StepArenas arenas{memory.data(), memory.data(), kArena};
    EXPECT_EQ(worker.strategy().Prepare(arenas, beyond).status().code(), absl::StatusCode::kInvalidArgument);
    return absl::OkStatus();
  }));
}

}  // namespace
}  // namespace tethys
