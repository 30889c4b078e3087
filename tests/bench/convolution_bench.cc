// Measures the three passes of the convolutions of some networks on a device, each pass by itself: the time
// of a call, and the multiply-adds in a second.
//
//   convolution_bench cpu|cuda fp32|tf32|bf16 NETWORK BATCH     lenet, resnet50, vgg16 or mobilenet
//
// Prints a line per shape with fields separated by tabs: the shape; for forward, data gradient and filter
// gradient the microseconds and 10^12 multiply-adds a second; and the library or kernel that computes each
// pass. Then prints a line with the network's sums, where a shape counts as often as the network has it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tests/bench/must.h"
#include "tests/runtime/device/network_convolutions.h"
#include "tests/testing/gpu.h"

namespace tethys {
namespace {

constexpr int kRounds = 5, kCalls = 3;
constexpr int64_t kFloat = sizeof(float);

class Bench {
 public:
  explicit Bench(std::unique_ptr<Device> device)
      : device_(std::move(device)), stream_(Must(device_->CreateStream())) {}

  // Returns the microseconds of one call of each pass. Sets `how` to the library or kernel of each pass.
  std::array<double, 3> Measure(const ConvolutionShape& shape, std::string& how) {
    const auto convolution = Must(device_->Create(shape));
    how = convolution->Describe();
    const int64_t in = shape.rows * shape.in.elements(), out = shape.rows * shape.output().elements();
    auto x = Activations(in), y = Activations(out), dx = Activations(in);
    auto filters = Floats(shape.filters()), dfilters = Floats(shape.filters());
    return {
        Time(
            [&] { return convolution->Forward(*stream_, x->data(), filters->floats(), nullptr, y->data()); }),
        Time([&] { return convolution->DataGradient(*stream_, filters->floats(), y->data(), dx->data()); }),
        Time([&] {
          return convolution->FilterGradient(*stream_, x->data(), y->data(), dfilters->floats(), nullptr);
        })};
  }

 private:
  std::unique_ptr<Buffer> Floats(int64_t count) {
    auto buffer = Must(device_->Allocate(count * kFloat, MemoryKind::kDevice));
    std::vector<float> piece(std::min<int64_t>(count, 1 << 20));
    for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<float>(i % 1009) * 1e-3f - 0.5f;
    int64_t filled = static_cast<int64_t>(piece.size());
    MustBeOk(device_->CopyToDevice(*stream_, buffer->data(), piece.data(), filled * kFloat));
    for (; filled < count; filled *= 2) {
      MustBeOk(device_->CopyOnDevice(*stream_, buffer->floats() + filled, buffer->data(),
                                     std::min(filled, count - filled) * kFloat));
    }
    MustBeOk(stream_->Synchronize());
    return buffer;
  }
  // Random numbers in the device's type of activations.
  std::unique_ptr<Buffer> Activations(int64_t count) {
    auto floats = Floats(count);
    if (device_->activation_type() == ElementType::kFloat32) return floats;
    auto rounded = Must(device_->Allocate(count * BytesOf(ElementType::kBfloat16), MemoryKind::kDevice));
    MustBeOk(
        device_->RoundToBfloat16(*stream_, floats->floats(), static_cast<Bfloat16*>(rounded->data()), count));
    MustBeOk(stream_->Synchronize());
    return rounded;
  }

  double Time(const std::function<absl::Status()>& run) {
    auto begin = Must(device_->CreateTimedEvent()), end = Must(device_->CreateTimedEvent());
    std::vector<double> times;
    MustBeOk(run());
    for (int round = 0; round < kRounds; ++round) {
      MustBeOk(begin->Record(*stream_));
      for (int i = 0; i < kCalls; ++i) MustBeOk(run());
      MustBeOk(end->Record(*stream_));
      MustBeOk(stream_->Synchronize());
      times.push_back(static_cast<double>(Must(end->Since(*begin))) / 1e3 / kCalls);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_;
};

void Run(Bench& bench, const std::string& network, const std::vector<NetworkConvolution>& convolutions) {
  std::array<double, 3> sums = {};
  for (const auto& [shape, count] : convolutions) {
    std::string how;
    const std::array<double, 3> times = bench.Measure(shape, how);
    const ImageShape out = shape.output();
    const double products = static_cast<double>(shape.rows * out.height * out.width * shape.filters());
    std::printf("%s, %lld of %lld x %lld x %lld, %lld filters of %lld x %lld, stride %lld", network.c_str(),
                static_cast<long long>(shape.rows), static_cast<long long>(shape.in.height),
                static_cast<long long>(shape.in.width), static_cast<long long>(shape.in.channels),
                static_cast<long long>(shape.out), static_cast<long long>(shape.window.height.size),
                static_cast<long long>(shape.window.width.size),
                static_cast<long long>(shape.window.height.stride));
    for (size_t pass = 0; pass < times.size(); ++pass) {
      std::printf("\t%.0f\t%.2f", times[pass], products / times[pass] / 1e6);
      sums[pass] += count * times[pass];
    }
    std::printf("\t%s\n", how.c_str());
    std::fflush(stdout);
  }
  std::printf("%s, all\t%.0f\t\t%.0f\t\t%.0f\t\n", network.c_str(), sums[0], sums[1], sums[2]);
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  using namespace tethys;
  const std::string kind = argc > 1 ? argv[1] : "", precision = argc > 2 ? argv[2] : "";
  const int batch = argc > 4 ? std::atoi(argv[4]) : 0;
  const std::string network = argc > 3 ? argv[3] : "";
  const std::vector<NetworkConvolution> convolutions =
      batch < 1 ? std::vector<NetworkConvolution>() : NetworkConvolutions(network, batch);
  if ((kind != "cpu" && kind != "cuda") ||
      (precision != "fp32" && precision != "tf32" && precision != "bf16") || convolutions.empty()) {
    std::fprintf(stderr,
                 "usage: convolution_bench cpu|cuda fp32|tf32|bf16 lenet|resnet50|vgg16|mobilenet BATCH\n");
    return 2;
  }
  auto device = kind == "cuda"
                    ? testing::CreateGpu({.bf16 = precision == "bf16", .tf32 = precision == "tf32"})
                    : CreateCpuDevice(1);
  if (!device.ok()) {
    std::fprintf(stderr, "convolution_bench: %s\n", StatusText(device.status()).c_str());
    return 1;
  }
  std::printf("%s\n", (*device)->Describe().c_str());
  Bench bench(*std::move(device));
  Run(bench, network, convolutions);
}
