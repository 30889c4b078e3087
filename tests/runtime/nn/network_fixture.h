// A model, a device, arenas and a batch of random samples, for tests of plans and training.
#ifndef TETHYS_TESTS_RUNTIME_NN_NETWORK_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_NN_NETWORK_FIXTURE_H_

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/local_strategy.h"
#include "runtime/nn/plan.h"
#include "runtime/tensor/arena.h"
#include "tests/testing/happened_event.h"

namespace tethys {

// Adds a flatten layer and then dense layers of these widths, with ReLU between them.
inline void AddDenseLayers(absl::Span<const int64_t> widths, proto::Model& config) {
  config.add_layer()->mutable_flatten();
  for (size_t i = 0; i < widths.size(); ++i) {
    proto::Dense* dense = config.add_layer()->mutable_dense();
    dense->set_units(widths[i]);
    if (i + 1 < widths.size()) dense->set_activation(proto::RELU);
  }
}

inline Model MakeMlp(const Shape& sample_shape, const std::vector<int64_t>& widths) {
  proto::Model config;
  AddDenseLayers(widths, config);
  return Model::Create(config, sample_shape, widths.back()).value();
}

// LeNet's layers, for images of any size: a convolution with padding, one without, max pooling after each,
// then dense layers. `widths` are the filters of the two convolutions, then the dense layers' units.
inline Model MakeLenet(const Shape& sample_shape, int64_t kernel_size, const std::vector<int64_t>& widths) {
  proto::Model config;
  for (const int layer : {0, 1}) {
    proto::Convolution* convolution = config.add_layer()->mutable_convolution();
    convolution->set_filters(widths[layer]);
    convolution->set_kernel_size(kernel_size);
    convolution->set_padding(layer == 0 ? proto::SAME : proto::VALID);
    convolution->set_activation(proto::RELU);
    config.add_layer()->mutable_max_pooling();
  }
  AddDenseLayers(absl::MakeConstSpan(widths).subspan(2), config);
  return Model::Create(config, sample_shape, widths.back()).value();
}
inline Model MakeLenet() { return MakeLenet({28, 28}, 5, {6, 16, 120, 84, 10}); }

// Fills the batch with random samples of weight 1, different for each key.
inline void FillRandom(const HostBatch& batch, int64_t sample_elements, int64_t classes, uint64_t key,
                       int64_t label_elements = 1) {
  RandomStream stream(3, RandomPurpose::kTest, key);
  for (int64_t i = 0; i < batch.rows * sample_elements; ++i) batch.inputs[i] = stream.NextBelow(256);
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t i = r * label_elements; i < (r + 1) * label_elements; ++i) {
      batch.labels[i] = static_cast<int32_t>(stream.NextBelow(static_cast<uint32_t>(classes)));
    }
    batch.weights[r] = 1;
  }
}

// |a - b| / |b| over the elements of `range`.
inline double Distance(const float* a, const std::vector<double>& b, Range range) {
  double difference = 0, norm = 0;
  for (int64_t i = range.begin; i < range.end(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

struct Network {
  Network(const Shape& sample_shape, const std::vector<int64_t>& widths, int64_t rows)
      : Network(MakeMlp(sample_shape, widths), rows) {}
  // The device `on` must compute in the host's memory.
  Network(Model compiled, int64_t rows,
          const InputScaling& input_scaling = {.mean = {0.3f}, .deviation = {0.35f}},
          std::unique_ptr<Device> on = CreateCpuDevice(1).value())
      : scaling(input_scaling),
        model(std::move(compiled)),
        device(std::move(on)),
        stream(device->CreateStream().value()),
        parameters(model.variables().arena_size()),
        gradients(model.variables().arena_size()),
        statistics(model.statistics().arena_size()),
        samples(rows, model.sample_elements(), model.loss().labels().elements()),
        batch(samples.batch()) {
    model.variables().FillInitialValues(5, {0, parameters.size()}, parameters.data());
    model.statistics().FillInitialValues(5, {0, statistics.size()}, statistics.data());
    plan = TrainingPlan({.rows = rows, .scaling = scaling});
    FillRandom(batch, model.sample_elements(), model.classes(), 0, model.loss().labels().elements());
  }

  absl::Status Backward() {
    return plan->Backward([](int64_t, const Event&) { return absl::OkStatus(); });
  }
  std::unique_ptr<Plan> TrainingPlan(const PlanOptions& options) {
    return Plan::Compile(model, *device, *stream, options,
                         {.parameters = parameters.data(),
                          .gradient_sums = gradients.data(),
                          .statistics = statistics.data()})
        .value();
  }
  // Compiles a plan of `rows` rows that evaluates.
  std::unique_ptr<Plan> EvaluationPlan(int64_t rows, Buffer* activations = nullptr) {
    return Plan::Compile(
               model, *device, *stream, {.rows = rows, .scaling = scaling},
               {.parameters = parameters.data(), .statistics = statistics.data(), .activations = activations})
        .value();
  }
  std::vector<double> DoubleParameters() const {
    return {parameters.data(), parameters.data() + parameters.size()};
  }

  const InputScaling scaling;
  Model model;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  Arena parameters;
  Arena gradients;
  Arena statistics;
  BatchBuffer samples;
  HostBatch batch;
  std::unique_ptr<Plan> plan;
};

// A local strategy that updates all variables of the network.
inline std::unique_ptr<Strategy> MakeLocalStrategy(Network& network, const proto::Optimizer& config,
                                                   const Clock& clock) {
  std::vector<NamedRange> ranges;
  for (const Variable& variable : network.model.variables().variables()) {
    ranges.push_back({variable.name, variable.range});
  }
  auto optimizer = CreateOptimizer(config, *network.device, MakeUpdateRegions(config, ranges)).value();
  auto strategy = CreateLocalStrategy(
      {std::move(optimizer), LearningRateSchedule(config, {}), *network.stream, clock}, clock);
  const StepArenas arenas = {network.parameters.data(), network.gradients.data(), network.parameters.size()};
  strategy->Prepare(arenas, network.model.ready_order()).value();
  return strategy;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_NN_NETWORK_FIXTURE_H_
