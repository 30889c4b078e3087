#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>

#include "runtime/device/cpu/kernels.h"
#include "tests/runtime/device/bfloat16_conformance.h"
#include "tests/runtime/device/device_conformance.h"
#include "tests/runtime/device/image_conformance.h"
#include "tests/runtime/device/image_shapes.h"
#include "tests/runtime/device/stream_conformance.h"

namespace tethys {

namespace cpu {
extern const Kernels kBaselineKernels;
}  // namespace cpu

namespace {

DeviceCase Cpu(int threads, const Arithmetic& arithmetic = kFloat32) {
  return {[threads] { return CreateCpuDevice(threads); }, arithmetic};
}
INSTANTIATE_TEST_SUITE_P(CpuOneThread, DeviceConformance, testing::Values(Cpu(1)));
INSTANTIATE_TEST_SUITE_P(CpuTwoThreads, DeviceConformance, testing::Values(Cpu(2)));
INSTANTIATE_TEST_SUITE_P(CpuOneThread, Bfloat16Conformance, testing::Values(Cpu(1)));
INSTANTIATE_TEST_SUITE_P(CpuOneThread, ImageConformance, testing::Values(Cpu(1)));
INSTANTIATE_TEST_SUITE_P(CpuTwoThreads, ImageConformance, testing::Values(Cpu(2)));
// These instances test the suites themselves: a device that is more precise than required must pass as well.
INSTANTIATE_TEST_SUITE_P(CpuAsTf32, DeviceConformance, testing::Values(Cpu(1, kTf32)));
INSTANTIATE_TEST_SUITE_P(CpuAsTf32, ImageConformance, testing::Values(Cpu(1, kTf32)));
constexpr Arithmetic kBfloat16Factors = {.factor_bits = 8, .activation_bits = 24};
INSTANTIATE_TEST_SUITE_P(CpuAsBfloat16, DeviceConformance, testing::Values(Cpu(1, kBfloat16Factors)));
INSTANTIATE_TEST_SUITE_P(CpuAsBfloat16, ImageConformance, testing::Values(Cpu(1, kBfloat16Factors)));

TEST(Conformance, RoundedToGivesTheNearestNumberWithTheGivenPrecisionInBits) {
  EXPECT_EQ(RoundedTo(8, 1 + 0x1p-7f), 1 + 0x1p-7f);
  EXPECT_EQ(RoundedTo(8, -1 - 0x1p-9f), -1);
  EXPECT_EQ(RoundedTo(11, 3 * 0x1p-40f), 3 * 0x1p-40f);
  EXPECT_EQ(RoundedTo(24, 0.1f), 0.1f);
  EXPECT_EQ(RoundedTo(8, 0), 0);
}

int64_t ThreadCount() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(CpuDevice, DeviceWithOneThreadStartsNoOtherThread) {
  auto device = CreateCpuDevice(1).value();
  auto stream = device->CreateStream().value();
  const int64_t before = ThreadCount();
  auto dense = device->Create(DenseShape{.rows = 256, .in = 512, .out = 512}).value();
  std::vector<float> x(256 * 512), weights(512 * 512), bias(512), y(256 * 512);
  ASSERT_TRUE(dense->Forward(*stream, x.data(), weights.data(), bias.data(), y.data()).ok());
  EXPECT_EQ(ThreadCount(), before);
}

TEST(CpuDevice, NumberOfThreadsOutOfRangeIsRefused) {
  for (const int threads : {-1, 0, 1000000}) {
    const auto device = CreateCpuDevice(threads);
    EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(StatusText(device.status()), testing::HasSubstr("threads_per_rank"));
  }
}

TEST(CpuDevice, TooLargeAllocationIsRefusedWithItsSize) {
  auto device = CreateCpuDevice(1).value();
  const auto buffer = device->Allocate(int64_t{1} << 40, MemoryKind::kDevice);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(buffer.status()), testing::HasSubstr("1048576 MiB"));
  const auto pooling = device->Create(
      MaxPoolingShape{.rows = 1, .in = {1, int64_t{1} << 30, 1 << 8}, .window = SquareWindow(1, 1, 0, 0)});
  EXPECT_EQ(pooling.status().code(), absl::StatusCode::kResourceExhausted);
  const auto loss = device->Create(SoftmaxCrossEntropyShape{.rows = int64_t{1} << 30, .classes = 1 << 8});
  EXPECT_EQ(loss.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(CpuDevice, DescribeNamesTheLibraryAndTheNumberOfThreads) {
  EXPECT_THAT(CreateCpuDevice(1).value()->Describe(), testing::MatchesRegex("cpu, oneDNN .*, 1 thread"));
}

TEST(CpuDevice, UpdateFlushesDenormalsAndRestoresTheFloatingPointModeOfTheCaller) {
  auto device = CreateCpuDevice(1).value();
  auto stream = device->CreateStream().value();
  std::vector<float> w(64, 1), g(64, 0), v(64, 1e-39f);
  const UpdateRates rates = {.learning_rate = 1};
  int32_t bad = 0;
  const UpdateRule rule = {.formula = UpdateFormula::kMomentum, .constants = {.momentum = 0.9f}};
  auto update = device->CreateUpdate(rule, {{{0, 64}, 0}}).value();
  ASSERT_TRUE(update->Run(*stream, {.rates = &rates}, w.data(), g.data(), {v.data()}, &bad).ok());
  EXPECT_THAT(v, testing::Each(0.0f));
  volatile float tiny = 1e-39f;
  EXPECT_NE(tiny * 0.5f, 0.0f) << "the calling thread's arithmetic was not restored";
}

// Runs our own loops, not those of oneDNN, on a device with `threads` threads, and on operands that are large
// enough for several threads. Each function returns outputs and gradients, one after another.
class OwnLoops {
 public:
  explicit OwnLoops(int threads)
      : device_(CreateCpuDevice(threads).value()), stream_(device_->CreateStream().value()) {}

  std::vector<float> Sum() {
    const std::vector<float> a = RandomFloats(kElements, 1), b = RandomFloats(kElements, 2);
    const auto sum = device_->Create(SumShape{.count = kElements, .relu = true}).value();
    std::vector<float> y(kElements);
    EXPECT_TRUE(sum->Run(*stream_, a.data(), b.data(), y.data()).ok());
    return y;
  }
  std::vector<float> Activation() {
    const std::vector<float> x = RandomFloats(kElements, 1), dy = RandomFloats(kElements, 2);
    const auto relu = device_->Create(ActivationShape{.count = kElements}).value();
    std::vector<float> y(kElements), dx(kElements);
    EXPECT_TRUE(relu->Forward(*stream_, x.data(), y.data()).ok());
    EXPECT_TRUE(relu->Backward(*stream_, y.data(), dy.data(), dx.data()).ok());
    return Joined(y, dx);
  }
  std::vector<float> MaxPooling() {
    const MaxPoolingShape shape = {.rows = kRows, .in = kImage, .window = SquareWindow(3, 2, 1, 1)};
    const std::vector<float> x = RandomFloats(kElements, 1),
                             dy = RandomFloats(kRows * shape.output().elements(), 2);
    const auto pooling = device_->Create(shape).value();
    std::vector<float> y(dy.size()), dx(kElements);
    EXPECT_TRUE(pooling->Forward(*stream_, x.data(), y.data()).ok());
    EXPECT_TRUE(pooling->Backward(*stream_, x.data(), y.data(), dy.data(), dx.data()).ok());
    return Joined(y, dx);
  }
  std::vector<float> AveragePooling() {
    const AveragePoolingShape shape = {.rows = kRows, .in = kImage, .window = SquareWindow(3, 2, 1, 1)};
    const std::vector<float> x = RandomFloats(kElements, 1),
                             dy = RandomFloats(kRows * shape.output().elements(), 2);
    const auto pooling = device_->Create(shape).value();
    std::vector<float> y(dy.size()), dx(kElements);
    EXPECT_TRUE(pooling->Forward(*stream_, x.data(), y.data()).ok());
    EXPECT_TRUE(pooling->Backward(*stream_, dy.data(), dx.data()).ok());
    return Joined(y, dx);
  }
  std::vector<float> BatchNormalisation() {
    const int64_t channels = kImage.channels;
    const std::vector<float> x = RandomFloats(kElements, 1), dy = RandomFloats(kElements, 2);
    const std::vector<float> scale = RandomFloats(channels, 3), offset = RandomFloats(channels, 4);
    std::vector<float> weights(kRows, 1);
    weights.back() = 0;
    const auto layer =
        device_
            ->Create(BatchNormalisationShape{
                .rows = kRows, .positions = kImage.height * kImage.width, .channels = channels, .relu = true})
            .value();
    std::vector<float> y(kElements), dx(kElements), dscale(channels), doffset(channels);
    const ScaleAndOffset variables = {scale.data(), offset.data()};
    EXPECT_TRUE(layer->Forward(*stream_, x.data(), weights.data(), variables, y.data()).ok());
    EXPECT_TRUE(
        layer->Backward(*stream_, x.data(), variables, dy.data(), dx.data(), dscale.data(), doffset.data())
            .ok());
    return Joined(Joined(y, dx), Joined(dscale, doffset));
  }
  std::vector<float> Update() {
    std::vector<float> w = RandomFloats(kElements, 1), g = RandomFloats(kElements, 2),
                       v = RandomFloats(kElements, 3);
    const UpdateRates rates = {.learning_rate = 0.1f};
    int32_t bad = 0;
    const UpdateRule rule = {.formula = UpdateFormula::kMomentum, .constants = {.momentum = 0.9f}};
    const auto update = device_->CreateUpdate(rule, {{{0, kElements}, 0}}).value();
    EXPECT_TRUE(update->Run(*stream_, {.rates = &rates}, w.data(), g.data(), {v.data()}, &bad).ok());
    const std::vector<float> updated = Joined(w, v);
    g[kElements - 1] = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(update->Run(*stream_, {.rates = &rates}, w.data(), g.data(), {v.data()}, &bad).ok());
    EXPECT_EQ(bad, 1);
    EXPECT_EQ(Joined(w, v), updated) << "a gradient that is not finite changed something";
    return updated;
  }
  // Sums of the gradients of all positions; each thread computes a part.
  std::vector<float> BiasGradient(bool relu) {
    const ConvolutionShape shape = {
        .rows = kRows, .in = kImage, .out = 16, .window = SquareWindow(1, 1, 0, 0), .relu = relu};
    const int64_t outputs = kRows * shape.output().elements();
    const std::vector<float> x = RandomFloats(kElements, 1), filters = RandomFloats(shape.filters(), 2);
    const std::vector<float> bias = RandomFloats(shape.out, 3);
    std::vector<float> y(outputs), dy = RandomFloats(outputs, 4), dfilters(filters.size()), dbias(shape.out);
    const auto layer = device_->Create(shape).value();
    EXPECT_TRUE(layer->Forward(*stream_, x.data(), filters.data(), bias.data(), y.data()).ok());
    EXPECT_TRUE(layer
                    ->Backward(*stream_, x.data(), filters.data(), y.data(), dy.data(), nullptr,
                               dfilters.data(), dbias.data())
                    .ok());
    return dbias;
  }

 private:
  static constexpr ImageShape kImage = {20, 19, 24};
  static constexpr int64_t kRows = 7, kElements = kRows * kImage.height * kImage.width * kImage.channels;
  static_assert(kElements > 3 * (1 << 14), "a part of each of three threads has 2^14 elements");

  static std::vector<float> Joined(std::vector<float> a, const std::vector<float>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_;
};

TEST(CpuDevice, LoopsOutsideOneDnnGiveTheSameBitsWithAnyNumberOfThreads) {
  OwnLoops one(1);
  for (const int threads : {2, 3, 16}) {
    OwnLoops several(threads);
    EXPECT_EQ(several.Sum(), one.Sum()) << threads;
    EXPECT_EQ(several.Activation(), one.Activation()) << threads;
    EXPECT_EQ(several.MaxPooling(), one.MaxPooling()) << threads;
    EXPECT_EQ(several.AveragePooling(), one.AveragePooling()) << threads;
    EXPECT_EQ(several.BatchNormalisation(), one.BatchNormalisation()) << threads;
    EXPECT_EQ(several.Update(), one.Update()) << threads;
  }
}

TEST(CpuDevice, BiasGradientOfSeveralThreadsIsTheSumOfTheirParts) {
  OwnLoops one(1);
  for (const bool relu : {false, true}) {
    const std::vector<float> sums = one.BiasGradient(relu);
    for (const int threads : {2, 3, 16}) {
      const std::vector<float> parts = OwnLoops(threads).BiasGradient(relu);
      EXPECT_LE(RelativeError(parts, {sums.begin(), sums.end()}), 1e-5) << threads;
      EXPECT_EQ(OwnLoops(threads).BiasGradient(relu), parts) << threads;
    }
  }
}

class CpuKernels : public testing::Test {
 protected:
  // The parameters and then the slots, one after another in one array, after an update by formula number
  // `formula`.
  static std::vector<float> Updated(const cpu::Kernels& kernels, int formula, int64_t offset, int64_t count) {
    std::vector<float> w = RandomFloats(200, 1), g = RandomFloats(200, 2);
    // Changes the alignment of the operands, not their values.
    w.insert(w.begin(), offset, 0), g.insert(g.begin(), offset, 0);
    const cpu::UpdateLoops& loops = kernels.updates[formula];
    std::vector<std::vector<float>> slots;
    float* pointers[kMostSlots] = {};
    for (int slot = 0; slot < loops.slots; ++slot) {
      slots.push_back(SlotValues(200, slot));
      slots.back().insert(slots.back().begin(), offset, 0);
    }
    for (int slot = 0; slot < loops.slots; ++slot) pointers[slot] = slots[slot].data() + offset;
    loops.coupled(count, kUpdateConstants, kUpdateRates, {0.01f, 0.5f}, w.data() + offset, g.data() + offset,
                  pointers);
    std::vector<float> values(w.begin() + offset, w.begin() + offset + count);
    for (const auto& slot : slots) {
      values.insert(values.end(), slot.begin() + offset, slot.begin() + offset + count);
    }
    return values;
  }
};

TEST_F(CpuKernels, UpdateKernelsGiveTheSameBitsForAnyAlignmentAndNumberOfElements) {
  const cpu::Kernels& kernels = cpu::SelectKernels();
  for (int formula = 0; formula < kUpdateFormulas; ++formula) {
    const std::vector<float> all = Updated(kernels, formula, 0, 200);
    for (int64_t offset = 1; offset < 16; ++offset) EXPECT_EQ(Updated(kernels, formula, offset, 200), all);
    // A parameter server updates slices of an array that a worker updates as a whole.
    for (int64_t count = 1; count < 200; ++count) {
      const std::vector<float> part = Updated(kernels, formula, 0, count);
      for (size_t i = 0; i < part.size(); ++i)
        EXPECT_EQ(part[i], all[i / count * 200 + i % count]) << formula;
    }
  }
}

TEST_F(CpuKernels, BaselineKernelsAgreeWithTheWidestKernelsOfThisCpu) {
  for (int formula = 0; formula < kUpdateFormulas; ++formula) {
    const auto wide = Updated(cpu::SelectKernels(), formula, 0, 200);
    const auto plain = Updated(cpu::kBaselineKernels, formula, 0, 200);
    EXPECT_LE(RelativeError(wide, {plain.begin(), plain.end()}), 1e-6) << formula;
  }
}

TEST_F(CpuKernels, ErrorsOfExponentialsAreWithinTheirBound) {
  std::vector<float> values;
  for (float x = 0; x >= -87; x -= 0.0037f) values.push_back(x);
  std::vector<float> powers = values;
  cpu::SelectKernels().exponentials(static_cast<int64_t>(powers.size()), powers.data());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(powers[i] / std::exp(double{values[i]}), 1, 3e-7) << values[i];
  }
}

// oneDNN's reference loops are a hundred times slower than its kernels.
TEST(CpuDevice, ConvolutionsOfPublishedNetworksDoNotUseOneDnnReferenceLoops) {
  const auto device = CreateCpuDevice(1).value();
  const auto shape = [](ImageShape in, int64_t out, Window window, int64_t groups = 1) {
    return ConvolutionShape{.rows = 2, .in = in, .out = out, .window = window, .groups = groups};
  };
  const Window three = SquareWindow(3, 1, 1, 1), three_by_two = SquareWindow(3, 2, 0, 1),
               one = SquareWindow(1, 1, 0, 0), one_by_two = SquareWindow(1, 2, 0, 0);
  const ConvolutionShape shapes[] = {
      shape({224, 224, 3}, 64, SquareWindow(7, 2, 3, 3)),  // The first convolution of ResNet.
      shape({56, 56, 64}, 64, three),
      shape({56, 56, 64}, 256, one),
      shape({56, 56, 256}, 128, one_by_two),
      shape({56, 56, 128}, 128, SquareWindow(3, 2, 1, 1)),
      shape({7, 7, 512}, 512, three),
      shape({224, 224, 3}, 64, three),         // The first convolution of VGG.
      shape({32, 32, 3}, 16, three),           // The first convolution of ResNet for CIFAR-10.
      shape({224, 224, 3}, 32, three_by_two),  // The first convolution of MobileNet.
      shape({112, 112, 32}, 32, three, 32),
      shape({112, 112, 64}, 64, three_by_two, 64),
      shape({7, 7, 1024}, 1024, three, 1024),
      shape({28, 28, 64}, 64, DilatedWindow(3, 2, 2)),
  };
  for (const ConvolutionShape& each : shapes) {
    const std::string text = device->Create(each).value()->Describe();
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("ref"))) << each.in.height << " " << each.out;
  }
}

}  // namespace
}  // namespace tethys
