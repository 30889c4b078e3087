// A small job with parameter servers, and a worker with gradients chosen by the test.
#ifndef TETHYS_TESTS_PS_PS_WORKER_H_
#define TETHYS_TESTS_PS_PS_WORKER_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ps/partitioner.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/strategy.h"
#include "runtime/tensor/arena.h"
#include "tests/testing/happened_event.h"

namespace tethys {

// The variables of two layers: w1 [20, 33], b1 [33], w2 [33, 10], b2 [10]. `initial_value` is for the weights
// only.
inline VariableSet TestVariables(InitialValue initial_value = InitialValue::kZeros) {
  VariableSet variables;
  EXPECT_TRUE(variables.Add("w1", {20, 33}, "in,out", initial_value, 20, 33).ok());
  EXPECT_TRUE(variables.Add("b1", {33}, "out", InitialValue::kZeros, 20, 33).ok());
  EXPECT_TRUE(variables.Add("w2", {33, 10}, "in,out", initial_value, 33, 10).ok());
  EXPECT_TRUE(variables.Add("b2", {10}, "out", InitialValue::kZeros, 33, 10).ok());
  return variables;
}

// A plan with learning rate 1/4 and a global batch of 8: with small integers as gradients, all results are
// exact. `parameter_server` and `tuning` are the texts of the job file's blocks of these names.
inline proto::JobPlan TestPlan(int workers, const std::string& parameter_server,
                               const std::string& tuning = "",
                               InitialValue initial_value = InitialValue::kZeros) {
  proto::JobPlan plan;
  proto::Job& job = *plan.mutable_job();
  job.set_workers(workers);
  job.set_epochs(1);
  job.set_seed(17);
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_optimizer()->set_learning_rate(0.25);
  job.mutable_timeouts()->set_step(20);
  proto::ParameterServer& config = *job.mutable_strategy()->mutable_parameter_server();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(parameter_server, &config)) << parameter_server;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(tuning, job.mutable_tuning())) << tuning;
  plan.set_job_id("job-1");
  plan.set_job_hash(11);
  plan.set_train_samples(1000);
  plan.set_global_batch(8);
  const VariableSet variables = TestVariables(initial_value);
  AddVariables(variables, plan);
  *plan.mutable_placement() =
      *PlaceShards(variables, std::max(1, config.servers()), job.tuning().partitioner());
  return plan;
}

// A worker: its arenas and its strategy. A step pushes the same gradient for every parameter.
class TestWorker {
 public:
  TestWorker(const proto::JobPlan& plan, int index, std::unique_ptr<Strategy> strategy)
      : variables_(TestVariables()),
        index_(index),
        parameters_(variables_.arena_size()),
        gradients_(variables_.arena_size()),
        strategy_(std::move(strategy)),
        workers_(plan.job().workers()) {}

  // Announces the ranges of gradients in the order in which they are sent: the last layer first or, if
  // `reversed`, last.
  absl::Status Prepare(bool reversed = false) {
    const auto variables = variables_.variables();
    const Range layer2{variables[2].range.begin, variables[3].range.end() - variables[2].range.begin};
    const Range layer1{variables[0].range.begin, variables[1].range.end() - variables[0].range.begin};
    const Range ready[] = {reversed ? layer1 : layer2, reversed ? layer2 : layer1};
    return strategy_->Prepare({parameters_.data(), gradients_.data(), parameters_.size()}, ready).status();
  }

  // This worker's samples of a step: workers share 8 samples as evenly as possible.
  int64_t samples() const { return 8 / workers_ + (index_ < 8 % workers_); }
  absl::Status Push(int64_t step, float gradient) { return Push(step, gradient, samples()); }
  absl::Status Push(int64_t step, float gradient, int64_t samples) {
    for (const Variable& variable : variables_.variables()) {
      for (float& value : gradients_.Slice(variable.range)) value = gradient;
    }
    step_ = {.step = step,
             .sample_begin = step * 8,
             .sample_count = samples,
             .global_sample_count = 8,
             .schedule_position = step * 8};
    TETHYS_RETURN_IF_ERROR(strategy_->BeginStep(step_));
    if (samples == 0) return absl::OkStatus();
    TETHYS_RETURN_IF_ERROR(strategy_->GradientReady(0, event_));
    return strategy_->GradientReady(1, event_);
  }
  absl::StatusOr<StepOutcome> Finish() { return EndStep(*strategy_, step_); }
  absl::Status Step(int64_t step, float gradient) {
    TETHYS_RETURN_IF_ERROR(Push(step, gradient));
    return Finish().status();
  }

  Strategy& strategy() { return *strategy_; }
  absl::Span<const float> parameters() const { return parameters_.span(); }
  // The value that all parameters have; NaN if they differ or padding is not zero.
  float Parameter() const {
    const float value = parameters_.data()[0];
    std::vector<bool> covered(parameters_.size());
    for (const Variable& variable : variables_.variables()) {
      for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
        covered[i] = true;
        if (parameters_.data()[i] != value) return std::numeric_limits<float>::quiet_NaN();
      }
    }
    for (int64_t i = 0; i < parameters_.size(); ++i) {
      if (!covered[i] && parameters_.data()[i] != 0) return std::numeric_limits<float>::quiet_NaN();
    }
    return value;
  }

 private:
  const VariableSet variables_;
  const int index_;
  Arena parameters_;
  Arena gradients_;
  std::unique_ptr<Strategy> strategy_;
  const int workers_;
  const HappenedEvent event_;
  StepInfo step_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_PS_PS_WORKER_H_
