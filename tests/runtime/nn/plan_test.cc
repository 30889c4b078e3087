#include "runtime/nn/plan.h"

#include <signal.h>

#include <deque>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/runtime/nn/network_fixture.h"
#include "tests/testing/reference_network.h"

namespace tethys {
namespace {

// Fills the gradients, but not their padding, with NaN, so that unwritten gradients are noticed.
void Poison(Network& network) {
  for (const Variable& variable : network.model.variables().variables()) {
    for (float& value : network.gradients.Slice(variable.range)) value = std::nanf("");
  }
}

void ExpectGradientsOfCentralDifferences(Network& network, double tolerance) {
  network.batch.weights[2] = 0.5f;
  Poison(network);
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  ASSERT_TRUE(network.Backward().ok());
  const ReferenceNetwork reference(network.model, network.scaling);
  std::vector<double> parameters = network.DoubleParameters();
  std::vector<double> differences(parameters.size());
  constexpr double kStep = 1e-6;
  for (const Variable& variable : network.model.variables().variables()) {
    for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
      const double value = parameters[i];
      parameters[i] = value + kStep;
      const double above = reference.Loss(parameters, network.batch);
      parameters[i] = value - kStep;
      differences[i] = (above - reference.Loss(parameters, network.batch)) / (2 * kStep);
      parameters[i] = value;
    }
    EXPECT_LE(Distance(network.gradients.data(), differences, variable.range), tolerance) << variable.name;
  }
}

// oneDNN's kernels keep data where a signal handler on their thread would overwrite it.
TEST(Plan, SignalsAreBlockedWhileItComputes) {
  const auto blocks = [](int signal) {
    sigset_t blocked;
    return pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 && sigismember(&blocked, signal) == 1;
  };
  Network network({4, 3}, {9, 7, 5}, 6);
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  EXPECT_FALSE(blocks(SIGUSR1));
  ASSERT_TRUE(network.plan
                  ->Backward([&](int64_t, const Event&) {
                    EXPECT_TRUE(blocks(SIGUSR1) && blocks(SIGPROF) && blocks(SIGINT));
                    EXPECT_FALSE(blocks(SIGSEGV)) << "a thread's own fault cannot wait";
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_FALSE(blocks(SIGUSR1));
}

TEST(Plan, GradientsAgreeWithCentralDifferencesInDoublePrecision) {
  Network network({4, 3}, {9, 7, 5}, 6);
  ExpectGradientsOfCentralDifferences(network, 1e-5);
}

TEST(Plan, ConvolutionGradientsAgreeWithCentralDifferences) {
  for (const Shape& sample_shape : {Shape{12, 12}, Shape{13, 10, 3}}) {
    Network lenet(MakeLenet(sample_shape, 3, {4, 5, 7, 6, 3}), 4);
    ExpectGradientsOfCentralDifferences(lenet, 1e-5);
  }
}

TEST(Plan, GradientsOfLenetAgreeWithDoublePrecision) {
  Network lenet(MakeLenet(), 8);
  Poison(lenet);
  ASSERT_TRUE(lenet.plan->Forward(lenet.batch).ok());
  ASSERT_TRUE(lenet.Backward().ok());
  std::vector<double> expected(lenet.gradients.size());
  ReferenceNetwork(lenet.model, lenet.scaling)
      .LossAndGradients(lenet.DoubleParameters(), lenet.batch, expected);
  for (const Variable& variable : lenet.model.variables().variables()) {
    EXPECT_LE(Distance(lenet.gradients.data(), expected, variable.range), 1e-5) << variable.name;
  }
}

TEST(Plan, GradientsAreCorrectIfTheFirstLayerHasNoParameters) {
  proto::Model config;
  config.add_layer()->mutable_max_pooling();
  config.add_layer()->mutable_flatten();
  config.add_layer()->mutable_dense()->set_units(3);
  Network pooled(Model::Create(config, {6, 6}, 3).value(), 4);
  ExpectGradientsOfCentralDifferences(pooled, 1e-5);
}

// A random model. It may have branches that are added and joined, values with several readers, layers that
// read a value twice, and layers before the first variable.
class RandomModel {
 public:
  explicit RandomModel(uint64_t key) : random_(17, RandomPurpose::kTest, key) {
    for (int i = 0; i < 12; ++i) AddLayer();
    JoinUnread();
  }
  const proto::Model& config() const { return config_; }

 private:
  struct Value {
    std::string name;
    Shape shape;
    bool read = false;
  };

  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(random_.NextBelow(static_cast<uint32_t>(limit)));
  }
  Value& Pick() { return values_[values_.size() - 1 - Below(std::min<int64_t>(values_.size(), 4))]; }

  proto::Layer& Add(std::initializer_list<Value*> inputs, const Shape& shape) {
    proto::Layer& layer = *config_.add_layer();
    layer.set_name(absl::StrCat("layer", config_.layer_size()));
    for (Value* input : inputs) {
      layer.add_input(input->name);
      input->read = true;
    }
    values_.push_back({layer.name(), shape});
    return layer;
  }

  void AddLayer() {
    Value& in = Pick();
    Value& other = Pick();
    const Shape shape = in.shape;
    switch (Below(6)) {
      case 0: {
        proto::Convolution& convolution = *Add({&in}, {shape[0], shape[1], 3}).mutable_convolution();
        convolution.set_filters(3);
        convolution.set_kernel_size(3);
        convolution.set_padding(proto::SAME);
        convolution.set_activation(static_cast<proto::Activation>(Below(5)));
        convolution.set_bias(Below(2) == 0);
        if (shape[2] % 3 == 0) convolution.set_groups(3);
        convolution.set_dilation(1 + Below(2));
        break;
      }
      case 1: {
        proto::AveragePooling& pooling = *Add({&in}, shape).mutable_average_pooling();
        pooling.set_size(3);
        pooling.set_stride(1);
        pooling.set_padding(proto::SAME);
        pooling.set_count_padding(Below(2) == 0);
        break;
      }
      case 2:
        Add({&in}, shape).mutable_activate()->set_activation(static_cast<proto::Activation>(1 + Below(4)));
        break;
      case 3:
        if (other.shape == shape) Add({&in, &other}, shape).mutable_add();
        break;
      case 4:
        if (other.shape == shape) Add({&in, &in, &other}, shape).mutable_add();
        break;
      case 5:
        Add({&in, &other}, {shape[0], shape[1], shape[2] + other.shape[2]}).mutable_concatenation();
        break;
    }
  }

  void JoinUnread() {
    std::vector<std::string> means;
    const size_t count = values_.size();
    for (size_t i = 0; i < count; ++i) {
      if (values_[i].read) continue;
      Value& value = values_[i];
      const std::string name = absl::StrCat("mean", i);
      proto::Layer& layer = *config_.add_layer();
      layer.add_input(value.name);
      if (Below(2) == 0) {
        layer.set_name(name);
        layer.mutable_global_average_pooling();
      } else {
        layer.mutable_flatten();
        proto::Layer& dense = *config_.add_layer();
        dense.set_name(name);
        dense.mutable_dense()->set_units(3);
      }
      means.push_back(name);
    }
    if (means.size() > 1) {
      proto::Layer& layer = *config_.add_layer();
      for (const std::string& mean : means) layer.add_input(mean);
      layer.mutable_concatenation();
    }
    config_.add_layer()->mutable_dense()->set_units(4);
  }

  RandomStream random_;
  proto::Model config_;
  std::deque<Value> values_ = {{"input", {6, 5, 2}}};
};

TEST(Plan, GradientsOfRandomGraphsAgreeWithDoublePrecision) {
  for (uint64_t key = 0; key < 60; ++key) {
    const RandomModel random(key);
    SCOPED_TRACE(random.config().DebugString());
    Network network(Model::Create(random.config(), {6, 5, 2}, 4).value(), 3);
    network.batch.weights[1] = 0;
    Poison(network);
    ASSERT_TRUE(network.plan->Forward(network.batch).ok());
    ASSERT_TRUE(network.Backward().ok());
    std::vector<double> expected(network.gradients.size());
    const double loss = ReferenceNetwork(network.model, network.scaling)
                            .LossAndGradients(network.DoubleParameters(), network.batch, expected);
    EXPECT_NEAR(network.plan->Loss()->loss_sum, loss, 1e-5 * std::abs(loss));
    for (const Variable& variable : network.model.variables().variables()) {
      EXPECT_LE(Distance(network.gradients.data(), expected, variable.range), 2e-5) << variable.name;
    }
  }
}

TEST(Plan, NetworkWithShortcutsAgreesWithCentralDifferences) {
  proto::Model config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layer { name: 'a' convolution { filters: 3 kernel_size: 3 padding: SAME activation: TANH } } "
      "layer { name: 'b' convolution { filters: 3 kernel_size: 3 padding: SAME } } "
      "layer { name: 'sum' input: 'b' input: 'a' add {} } layer { name: 'c' activate { activation: SIGMOID } "
      "} "
      "layer { input: 'c' input: 'sum' concatenation {} } layer { average_pooling { size: 2 } } "
      "layer { flatten {} } layer { dense { units: 3 } }",
      &config));
  Network network(Model::Create(config, {6, 5, 2}, 3).value(), 4);
  ExpectGradientsOfCentralDifferences(network, 1e-5);
}

// A network with two sums, each followed by a relu; one sum has three inputs. The text `between` describes a
// layer that is put between each sum and its relu; empty: no layer.
Network NetworkWithJoins(const std::string& between) {
  proto::Model config;
  const std::string text = absl::StrCat(
      "layer { name: 'a' convolution { filters: 3 kernel_size: 3 padding: SAME } } "
      "layer { name: 'b' batch_normalisation {} } "
      "layer { input: 'b' input: 'a' add {} } ",
      between,
      "layer { name: 'c' activate { activation: RELU } } "
      "layer { name: 'd' convolution { filters: 3 kernel_size: 3 padding: SAME } } "
      "layer { input: 'd' input: 'c' input: 'b' add {} } ",
      between,
      "layer { activate { activation: RELU } } layer { flatten {} } layer { name: 'e' dense { units: 3 } }");
  TETHYS_CHECK(google::protobuf::TextFormat::ParseFromString(text, &config), text);
  return {Model::Create(config, {6, 5, 2}, 3).value(), 4};
}

TEST(Plan, ReluFusedWithItsSumGivesTheSameBits) {
  // Dropout with rate 0 changes no bit, but separates the relu from the sum.
  Network fused = NetworkWithJoins(""), apart = NetworkWithJoins("layer { dropout { rate: 0 } } ");
  EXPECT_THAT(fused.plan->Describe(), testing::HasSubstr("add 3 of [6, 5, 3]: with relu"));
  EXPECT_THAT(apart.plan->Describe(), testing::Not(testing::HasSubstr("with relu")));
  for (Network* network : {&fused, &apart}) {
    Poison(*network);
    ASSERT_TRUE(network->plan->Forward(network->batch).ok());
    ASSERT_TRUE(network->Backward().ok());
  }
  EXPECT_EQ(fused.plan->Loss()->loss_sum, apart.plan->Loss()->loss_sum);
  for (const Variable& variable : fused.model.variables().variables()) {
    EXPECT_THAT(fused.gradients.Slice(variable.range),
                testing::ElementsAreArray(apart.gradients.Slice(variable.range)))
        << variable.name;
  }
  const auto evaluation = fused.EvaluationPlan(4), evaluation_apart = apart.EvaluationPlan(4);
  ASSERT_TRUE(evaluation->Forward(fused.batch).ok());
  ASSERT_TRUE(evaluation_apart->Forward(apart.batch).ok());
  EXPECT_EQ(evaluation->Loss()->loss_sum, evaluation_apart->Loss()->loss_sum);
}

TEST(Plan, PlansThatShareActivationsGiveTheSameBits) {
  Network network(MakeLenet(), 4);
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  ASSERT_TRUE(network.Backward().ok());
  const double loss = network.plan->Loss()->loss_sum;
  const std::vector<float> gradients(network.gradients.data(),
                                     network.gradients.data() + network.gradients.size());
  const int64_t elements = ActivationElements(network.model, 4, /*trains=*/true).value();
  const auto shared =
      network.device->Allocate(elements * static_cast<int64_t>(sizeof(float)), MemoryKind::kDevice).value();
  const auto training =
      Plan::Compile(network.model, *network.device, *network.stream, {.rows = 4, .scaling = network.scaling},
                    {.parameters = network.parameters.data(),
                     .gradient_sums = network.gradients.data(),
                     .activations = shared.get()})
          .value();
  const auto evaluation = network.EvaluationPlan(4, shared.get());
  Poison(network);
  ASSERT_TRUE(evaluation->Forward(network.batch).ok());
  EXPECT_EQ(evaluation->Loss()->loss_sum, loss);
  ASSERT_TRUE(training->Forward(network.batch).ok());
  ASSERT_TRUE(training->Backward([](int64_t, const Event&) { return absl::OkStatus(); }).ok());
  for (const Variable& variable : network.model.variables().variables()) {
    for (int64_t i = variable.range.begin; i < variable.range.end(); ++i) {
      ASSERT_EQ(network.gradients.data()[i], gradients[i]) << variable.name;
    }
  }
}

TEST(Plan, LossIsTheSumOverRows) {
  Network network({28, 28}, {128, 10}, 32);
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  const LossResult loss = network.plan->Loss().value();
  const ReferenceNetwork reference(network.model, network.scaling);
  EXPECT_NEAR(loss.loss_sum / reference.Loss(network.DoubleParameters(), network.batch), 1, 1e-6);
  EXPECT_EQ(loss.labels, 32);
}

TEST(Plan, RowsOfWeightZeroChangeNeitherLossNorGradients) {
  Network full({5}, {6, 3}, 4), padded({5}, {6, 3}, 9);
  std::copy_n(full.batch.inputs, 4 * 5, padded.batch.inputs);
  std::copy_n(full.batch.labels, 4, padded.batch.labels);
  std::fill_n(padded.batch.weights + 4, 5, 0.0f);
  for (Network* network : {&full, &padded}) {
    ASSERT_TRUE(network->plan->Forward(network->batch).ok());
    ASSERT_TRUE(network->Backward().ok());
  }
  EXPECT_EQ(padded.plan->Loss()->labels, 4);
  EXPECT_EQ(padded.plan->Loss()->loss_sum, full.plan->Loss()->loss_sum);
  const std::vector<double> expected(full.gradients.data(), full.gradients.data() + full.gradients.size());
  EXPECT_LE(Distance(padded.gradients.data(), expected, {0, full.gradients.size()}), 1e-6);
}

TEST(Plan, BackwardAnnouncesEachRangeOnceItsGradientsAreComplete) {
  Network network({4, 4}, {7, 5, 3}, 8);
  Poison(network);
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  const std::vector<Range> order = network.model.ready_order();
  int64_t announced = 0;
  const auto is_filled = [&](Range range) {
    for (const float value : network.gradients.Slice(range)) {
      if (std::isnan(value)) return false;
    }
    return true;
  };
  ASSERT_TRUE(network.plan
                  ->Backward([&](int64_t index, const Event& event) {
                    EXPECT_EQ(index, announced++);
                    EXPECT_TRUE(event.Happened().value());
                    EXPECT_TRUE(is_filled(order[index]));
                    const bool is_last = index + 1 == static_cast<int64_t>(order.size());
                    EXPECT_TRUE(is_last || !is_filled(order[index + 1]));
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(announced, 3);
}

TEST(Plan, CallbackErrorEndsBackward) {
  Network network({4}, {3, 2}, 2);
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  int calls = 0;
  const absl::Status status = network.plan->Backward([&](int64_t, const Event&) {
    ++calls;
    return absl::AbortedError("the membership changed");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(calls, 1);
}

TEST(Plan, PaddingOfTheGradientArenaStaysZero) {
  Network network({5}, {3, 2}, 4);
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  ASSERT_TRUE(network.Backward().ok());
  std::vector<bool> is_variable(network.gradients.size());
  for (const Variable& variable : network.model.variables().variables()) {
    std::fill_n(is_variable.begin() + variable.range.begin, variable.range.count, true);
  }
  for (int64_t i = 0; i < network.gradients.size(); ++i) {
    EXPECT_TRUE(is_variable[i] || network.gradients.data()[i] == 0) << i;
  }
}

TEST(Plan, EvaluationPlanGivesTheSameLossWithLessMemory) {
  Network network({5}, {3, 2}, 4);
  auto evaluation = network.EvaluationPlan(4);
  ASSERT_TRUE(network.plan->Forward(network.batch).ok());
  ASSERT_TRUE(evaluation->Forward(network.batch).ok());
  EXPECT_EQ(evaluation->Loss()->loss_sum, network.plan->Loss()->loss_sum);
  EXPECT_LT(evaluation->workspace_bytes(), network.plan->workspace_bytes());
}

TEST(Plan, BatchWithWrongNumberOfRowsOrLabelOutOfRangeIsRefused) {
  Network network({5}, {3, 2}, 4);
  HostBatch batch = network.batch;
  batch.rows = 3;
  EXPECT_EQ(network.plan->Forward(batch).code(), absl::StatusCode::kInvalidArgument);
  for (const int32_t label : {-1, 2}) {
    network.batch.labels[1] = label;
    EXPECT_THAT(StatusText(network.plan->Forward(network.batch)),
                testing::HasSubstr("row 1 of the batch has label"));
  }
  for (const int64_t rows : {int64_t{0}, int64_t{-1}, int64_t{1} << 60}) {
    EXPECT_FALSE(Plan::Compile(network.model, *network.device, *network.stream, {.rows = rows},
                               {.parameters = network.parameters.data()})
                     .ok());
  }
}

TEST(Plan, DescriptionOfAPlanNamesLayersShapesAndKernels) {
  Network network({5}, {3, 2}, 4);
  EXPECT_THAT(network.plan->Describe(), testing::HasSubstr("dense_1: dense 5 x 3 relu: forward sgemm"));
  Network lenet(MakeLenet(), 4);
  EXPECT_THAT(lenet.plan->Describe(),
              testing::HasSubstr("convolution_0: convolution [28, 28, 1] to [28, 28, 6], 5 x 5 / 1 relu: "));
  EXPECT_THAT(lenet.plan->Describe(),
              testing::HasSubstr("max pooling [28, 28, 6] to [14, 14, 6], 2 x 2 / 2"));
}

}  // namespace
}  // namespace tethys
