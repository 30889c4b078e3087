// Compares training under the local strategy with the same training in double precision.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/nn/network_fixture.h"
#include "tests/testing/reference_network.h"

namespace tethys {
namespace {

constexpr double kRate = 0.05;
constexpr double kMomentum = 0.9;
constexpr double kDecay = 1e-3;
constexpr int kSteps = 50;

proto::Optimizer SgdConfig() {
  proto::Optimizer config;
  config.set_learning_rate(kRate);
  config.set_weight_decay(kDecay);
  config.add_no_weight_decay("/bias");
  config.mutable_sgd()->set_momentum(kMomentum);
  return config;
}

class TrainingRun {
 public:
  // One step on the batch with key `step`; every fifth batch is short.
  absl::Status Step(int64_t step) {
    const int64_t samples = step % 5 == 4 ? network_.batch.rows / 3 : network_.batch.rows;
    FillRandom(network_.batch, network_.model.sample_elements(), network_.model.classes(), step);
    for (int64_t r = samples; r < network_.batch.rows; ++r) network_.batch.weights[r] = 0;
    const StepInfo info{.step = step, .sample_count = samples, .global_sample_count = samples};
    TETHYS_RETURN_IF_ERROR(strategy_->BeginStep(info));
    TETHYS_RETURN_IF_ERROR(network_.plan->Forward(network_.batch));
    TETHYS_RETURN_IF_ERROR(network_.plan->Backward(
        [this](int64_t index, const Event& event) { return strategy_->GradientReady(index, event); }));
    return EndStep(*strategy_, info).status();
  }

  // Computes Step in double precision, with parameters `w` and momentum `v`.
  void ReferenceStep(std::vector<double>& w, std::vector<double>& v) {
    std::vector<double> gradients(w.size());
    reference_.LossAndGradients(w, network_.batch, gradients);
    const double samples =
        std::count(network_.batch.weights, network_.batch.weights + network_.batch.rows, 1.0f);
    for (const Variable& variable : network_.model.variables().variables()) {
      const double decay = variable.name.find("bias") == std::string::npos ? kDecay : 0;
      for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
        v[i] = kMomentum * v[i] + gradients[i] / samples + decay * w[i];
        w[i] -= kRate * v[i];
      }
    }
  }

  const Network& network() const { return network_; }
  Network& network() { return network_; }
  Strategy& strategy() { return *strategy_; }

 private:
  Network network_{{12, 12}, {48, 24, 10}, 32};
  MonotonicClock clock_;
  ReferenceNetwork reference_{network_.model, network_.scaling};
  std::unique_ptr<Strategy> strategy_ = MakeLocalStrategy(network_, SgdConfig(), clock_);
};

TEST(Training, FiftyStepsAgreeWithDoublePrecision) {
  TrainingRun run;
  std::vector<double> w = run.network().DoubleParameters(), v(w.size());
  for (int64_t step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(run.Step(step).ok());
    run.ReferenceStep(w, v);
  }
  for (const Variable& variable : run.network().model.variables().variables()) {
    EXPECT_LE(Distance(run.network().parameters.data(), w, variable.range), 1e-4) << variable.name;
    EXPECT_LE(Distance(run.strategy().slots()[0].data(), v, variable.range), 1e-4) << variable.name;
  }
}

TEST(Training, RepeatedTrainingGivesTheSameParametersBitForBit) {
  TrainingRun run, again;
  for (int64_t step = 0; step < 10; ++step) {
    ASSERT_TRUE(run.Step(step).ok());
    ASSERT_TRUE(again.Step(step).ok());
  }
  EXPECT_THAT(run.network().parameters.span(), testing::ElementsAreArray(again.network().parameters.span()));
}

TEST(Training, NonFiniteGradientFailsTheStepAndKeepsParameters) {
  TrainingRun run;
  ASSERT_TRUE(run.Step(0).ok());
  run.network().parameters.data()[0] = std::nanf("");
  run.network().batch.inputs[0] = 1;
  const std::vector<float> before(run.network().parameters.data() + 1,
                                  run.network().parameters.data() + run.network().parameters.size());
  const absl::Status status = run.Step(17);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(status), testing::HasSubstr("step 17"));
  EXPECT_EQ(std::vector<float>(run.network().parameters.data() + 1,
                               run.network().parameters.data() + run.network().parameters.size()),
            before);
}

}  // namespace
}  // namespace tethys
