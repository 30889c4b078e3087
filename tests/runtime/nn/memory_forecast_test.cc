#include "runtime/nn/memory_forecast.h"

#include "gmock/gmock.h"
#include "tests/runtime/nn/network_fixture.h"
#include "tests/testing/late_device.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kGibibyte = int64_t{1} << 30;

MemoryNeeds OnGpu(int64_t rows, int64_t micro_batches = 1) {
  return {.rows = rows, .micro_batches = micro_batches, .slots = 1, .on_gpu = true};
}

// Bytes of device memory that are left after all allocations of a trainer with momentum.
int64_t LeftAfterTraining(const Model& model, int64_t rows, int64_t memory_bytes, int64_t micro_batches = 1) {
  const auto device = testing::CreateLateDevice({.memory_bytes = memory_bytes});
  const auto stream = device->CreateStream().value();
  const int64_t arena = model.variables().arena_size();
  const auto bytes = arena * static_cast<int64_t>(sizeof(float));
  const auto parameters = device->Allocate(bytes, MemoryKind::kDevice).value();
  const auto gradients = device->Allocate(bytes, MemoryKind::kDevice).value();
  const int64_t statistics_bytes = model.statistics().arena_size() * static_cast<int64_t>(sizeof(float));
  const auto statistics = device->Allocate(statistics_bytes, MemoryKind::kDevice).value();
  const auto evaluated_statistics = device->Allocate(statistics_bytes, MemoryKind::kDevice).value();
  proto::Optimizer sgd;
  sgd.mutable_sgd()->set_momentum(0.9);
  const auto optimizer = CreateOptimizer(sgd, *device, MakeUpdateRegions(sgd, {{"all", {0, arena}}})).value();
  const auto slots = optimizer->AllocateSlots(arena).value();
  const int64_t part = MicroBatchRows(rows, micro_batches);
  const int64_t evaluated = EvaluationRows(model, part);
  const int64_t elements = std::max(ActivationElements(model, part, /*trains=*/true).value(),
                                    ActivationElements(model, evaluated, /*trains=*/false).value());
  const auto activations =
      device->Allocate(elements * static_cast<int64_t>(sizeof(float)), MemoryKind::kDevice).value();
  const auto training = Plan::Compile(model, *device, *stream, {.rows = rows, .micro_batches = micro_batches},
                                      {.parameters = parameters->floats(),
                                       .gradient_sums = gradients->floats(),
                                       .statistics = statistics->floats(),
                                       .activations = activations.get()})
                            .value();
  const auto evaluation = Plan::Compile(model, *device, *stream, {.rows = evaluated},
                                        {.parameters = parameters->floats(),
                                         .statistics = evaluated_statistics->floats(),
                                         .activations = activations.get()})
                              .value();
  return device->FreeMemory().value().value();
}

Model MakeNormalised() {
  proto::Model config;
  for (const int64_t filters : {8, 300}) {
    proto::Convolution* convolution = config.add_layer()->mutable_convolution();
    convolution->set_filters(filters);
    convolution->set_kernel_size(3);
    convolution->set_stride(3);
    config.add_layer()->mutable_batch_normalisation()->set_activation(proto::RELU);
  }
  AddDenseLayers({10}, config);
  return Model::Create(config, {28, 28}, 10).value();
}

TEST(MemoryForecast, ForecastExceedsTheAllocatedMemoryByAtMostTenPercent) {
  for (const Model& model : {MakeLenet(), MakeMlp({28, 28}, {128, 10}), MakeNormalised()}) {
    for (const int64_t rows : {1, 64, 1000}) {
      const int64_t allocated = kGibibyte - LeftAfterTraining(model, rows, kGibibyte);
      const int64_t forecast = ForecastMemory(model, OnGpu(rows)).total();
      EXPECT_GE(forecast, allocated) << rows;
      EXPECT_LE(forecast, allocated + allocated / 10) << rows;
    }
    const int64_t in_parts = kGibibyte - LeftAfterTraining(model, 1000, kGibibyte, 8);
    const int64_t forecast = ForecastMemory(model, OnGpu(1000, 8)).total();
    EXPECT_GE(forecast, in_parts);
    EXPECT_LE(forecast, in_parts + in_parts / 10);
  }
}

TEST(MemoryForecast, MicroBatchesNeedTheActivationsOfOneMicroBatch) {
  const Model model = MakeNormalised();
  const MemoryForecast whole = ForecastMemory(model, OnGpu(4096));
  const MemoryForecast parts = ForecastMemory(model, OnGpu(4096, 8));
  EXPECT_LT(parts.activations, whole.activations / 7);
  EXPECT_GT(parts.gradients, whole.gradients);
  EXPECT_LT(parts.gradients, 2 * whole.gradients);
}

TEST(MemoryForecast, ForecastCountsMovingStatisticsOfTrainingAndEvaluation) {
  const Model model = MakeNormalised();
  const MemoryForecast forecast = ForecastMemory(model, OnGpu(8));
  EXPECT_EQ(forecast.statistics, 2 * 4 * (2 * 16 + 2 * 304));
  MemoryForecast without = forecast;
  without.statistics = 0;
  EXPECT_EQ(forecast.total() - without.total(), forecast.statistics);
  EXPECT_EQ(ForecastMemory(MakeLenet(), OnGpu(8)).statistics, 0);
}

TEST(MemoryForecast, EvaluationMemory_DoesNotGrowWithTheNumberOfLayers) {
  const Model deep = MakeMlp({28, 28}, std::vector<int64_t>(100, 10)), shallow = MakeMlp({28, 28}, {10, 10});
  const auto device = CreateCpuDevice(1).value();
  const auto stream = device->CreateStream().value();
  const auto bytes = [&](const Model& model) {
    const Arena parameters(model.variables().arena_size());
    return Plan::Compile(model, *device, *stream, {.rows = 16}, {.parameters = parameters.data()})
        .value()
        ->workspace_bytes();
  };
  EXPECT_EQ(bytes(deep), bytes(shallow));
}

TEST(MemoryForecast, WideModel_IsEvaluatedWithFewerRows) {
  EXPECT_EQ(EvaluationRows(MakeLenet(), 64), 256);
  EXPECT_EQ(EvaluationRows(MakeLenet(), 1000), 1000);
  const Model wide = MakeMlp({1024, 1024}, {1, 2});  // One row takes 4 MiB.
  EXPECT_EQ(EvaluationRows(wide, 8), 63);
  EXPECT_EQ(EvaluationRows(wide, 100), 100);
}

TEST(MemoryForecast, CpuForecastHasNoBatchesCopiesOrWorkspaces) {
  const MemoryForecast forecast = ForecastMemory(MakeLenet(), {.rows = 64, .slots = 1});
  EXPECT_EQ(forecast.batches, 0);
  EXPECT_EQ(forecast.copies, 0);
  EXPECT_EQ(forecast.workspaces(), 0);
}

TEST(MemoryForecast, ForecastCountsBfloat16CopiesOfWeightsAndTheSharedWorkspace) {
  // The layers have widths 4, 3 and 2. The training plan and the evaluation plan each hold a copy of the
  // weights.
  MemoryNeeds needs = OnGpu(8);
  needs.activations = ElementType::kBfloat16;
  const MemoryForecast forecast = ForecastMemory(MakeMlp({2, 2}, {3, 2}), needs);
  EXPECT_EQ(forecast.copies, 2 * 2 * (4 * 3 + 3 * 2));
  EXPECT_EQ(forecast.workspaces(), 32 * kMebibyte);
}

TEST(MemoryForecast, ActivationsInBfloat16TakeHalfTheBytes) {
  MemoryNeeds needs = OnGpu(1000);
  const MemoryForecast floats = ForecastMemory(MakeLenet(), needs);
  needs.activations = ElementType::kBfloat16;
  const MemoryForecast halves = ForecastMemory(MakeLenet(), needs);
  // The memory for the results of a step does not shrink, so the ratio is not exactly 0.5.
  EXPECT_NEAR(static_cast<double>(halves.activations) / floats.activations, 0.5, 1e-3);
  EXPECT_EQ(halves.parameters, floats.parameters);
  EXPECT_EQ(halves.gradients, floats.gradients);
  EXPECT_EQ(halves.batches, floats.batches);
  EXPECT_GT(LargestBatch(MakeLenet(), needs, kGibibyte, false),
            1.7 * LargestBatch(MakeLenet(), OnGpu(0), kGibibyte, false));
}

TEST(MemoryForecast, ForecastCountsTheBfloat16CopyOfExchangedGradients) {
  const Model model = MakeLenet();
  MemoryNeeds needs = OnGpu(8);
  needs.bf16_gradients = true;
  EXPECT_EQ(ForecastMemory(model, needs).copies, 2 * model.variables().arena_size());
}

TEST(MemoryForecast, LargestBatchFitsAndOneMoreRowDoesNot) {
  const Model model = MakeLenet(), narrow = MakeMlp({2, 2}, {3, 2});
  const int64_t narrow_batch = LargestBatch(narrow, OnGpu(0), kGibibyte, false);
  EXPECT_LE(ForecastMemory(narrow, OnGpu(narrow_batch)).total(), kGibibyte);
  EXPECT_GT(ForecastMemory(narrow, OnGpu(narrow_batch + 1)).total(), kGibibyte);
  for (const bool with_workspaces : {false, true}) {
    const int64_t batch = LargestBatch(model, OnGpu(0), 4 * kGibibyte, with_workspaces);
    const auto bytes = [&](int64_t rows) {
      const MemoryForecast forecast = ForecastMemory(model, OnGpu(rows));
      return forecast.total() + (with_workspaces ? forecast.workspaces() : 0);
    };
    EXPECT_LE(bytes(batch), 4 * kGibibyte);
    EXPECT_GT(bytes(batch + 1), 4 * kGibibyte);
  }
  EXPECT_EQ(LargestBatch(model, OnGpu(0), 1000, false), 0);
}

TEST(MemoryForecast, HugeBatchDoesNotOverflow) {
  EXPECT_GT(ForecastMemory(MakeLenet(), OnGpu(int64_t{1} << 60)).total(), int64_t{1} << 50);
}

// The result of the memory check, as text, on a GPU with `free_bytes` of memory.
std::string Refusal(int64_t rows, int64_t free_bytes, int64_t micro_batches = 1) {
  const auto device = testing::CreateLateDevice({.memory_bytes = free_bytes});
  return StatusText(CheckDeviceMemory(*device, MakeLenet(), OnGpu(rows, micro_batches)));
}

TEST(MemoryForecast, JobThatDoesNotFitIsRefusedAndAFittingBatchNamed) {
  const std::string refusal = Refusal(100'000, 4 * kGibibyte);
  EXPECT_THAT(refusal, AllOf(HasSubstr("RESOURCE_EXHAUSTED: batches of 100000 samples per worker need "),
                             HasSubstr("a late device"), HasSubstr("but 4096.0 MiB are free")));
  const int64_t batch = LargestBatch(MakeLenet(), OnGpu(0), 4 * kGibibyte, true);
  EXPECT_THAT(refusal, HasSubstr(absl::StrCat("a batch of ", batch, " samples per worker fits")));
  EXPECT_EQ(Refusal(batch, 4 * kGibibyte), "OK");
  EXPECT_THAT(refusal, HasSubstr(", or micro_batches: 2"));
  EXPECT_EQ(Refusal(100'000, 4 * kGibibyte, 2), "OK");
  EXPECT_GE(LeftAfterTraining(MakeLenet(), 1000, 4 * kGibibyte), 0);
}

TEST(MemoryForecast, RefusalSaysIfABatchFitsOnlyWithoutWorkspaces) {
  EXPECT_THAT(Refusal(100'000, 200 * kMebibyte),
              AllOf(HasSubstr("fits if cuBLAS and cuDNN take little workspace"), HasSubstr("nvidia-smi")));
}

TEST(MemoryForecast, JobForWhichNoBatchFitsIsRefused) {
  EXPECT_THAT(Refusal(1, kMebibyte), AllOf(HasSubstr("no batch fits"), HasSubstr("take a smaller model")));
}

TEST(MemoryForecast, CpuDeviceRefusesNoBatch) {
  const auto device = CreateCpuDevice(1).value();
  EXPECT_TRUE(CheckDeviceMemory(*device, MakeLenet(), OnGpu(int64_t{1} << 40)).ok());
}

TEST(MemoryForecast, MemoryNeedsAreDerivedFromTheJobPlan) {
  proto::JobPlan plan;
  plan.set_batch_per_worker(64);
  plan.add_slot("momentum");
  plan.mutable_job()->mutable_device()->set_precision(proto::Device::BF16);
  EXPECT_EQ(MemoryNeedsOf(plan, proto::Device::CUDA).activations, ElementType::kBfloat16);
  EXPECT_EQ(MemoryNeedsOf(plan, proto::Device::CPU).activations, ElementType::kFloat32);
  EXPECT_EQ(MemoryNeedsOf(plan, proto::Device::CPU).slots, 1);
  EXPECT_FALSE(MemoryNeedsOf(plan, proto::Device::CUDA).bf16_gradients);
  plan.mutable_job()->mutable_strategy()->mutable_mirrored()->set_gradients(proto::Device::BF16);
  EXPECT_TRUE(MemoryNeedsOf(plan, proto::Device::CUDA).bf16_gradients);
  plan.mutable_job()->mutable_strategy()->mutable_parameter_server();
  EXPECT_EQ(MemoryNeedsOf(plan, proto::Device::CUDA).slots, 0) << "servers keep them";
  EXPECT_EQ(MemoryNeedsOf(plan, proto::Device::CUDA).rows, 64);
}

}  // namespace
}  // namespace tethys
