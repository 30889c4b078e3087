// Measures the optimizer's bandwidth on a device: SGD over 100 M floats, alternating with copies of as many
// floats on the device, medians over rounds. Bytes that must be read or written per element:
//
//   copy                                          8    one float read, one written
//   SGD                                          12    parameter and gradient read, parameter written
//   SGD with momentum                            20    velocity also read and written
//   both, if "looking" for non-finite gradients  +4    gradient read once more, before the update
//
// Limit on a GPU: SGD without looking has at least 0.85 of the copy's bandwidth.
//
//   update_bench cpu|cuda [MILLIONS OF FLOATS] [ROUNDS]     default 100 and 31
//
// Prints a line per contestant with fields separated by tabs: name, GB/s, ratio to the copy's GB/s, and the
// limit, which is empty if there is none.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tests/testing/gpu.h"

namespace tethys {
namespace {

constexpr int kCalls = 5;  // Consecutive calls between two events.

void MustBeOk(const absl::Status& status) { TETHYS_CHECK(status.ok(), StatusText(status)); }
template <typename T>
T Must(absl::StatusOr<T> value) {
  MustBeOk(value.status());
  return *std::move(value);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Contestant {
  std::string name;
  double bytes_per_element;
  double limit;  // 0: none.
  std::function<absl::Status()> run;
  std::vector<double> bandwidths = {};  // GB/s, of each round.
};

class Bench {
 public:
  Bench(std::unique_ptr<Device> device, int64_t count)
      : device_(std::move(device)), count_(count), stream_(Must(device_->CreateStream())) {
    for (auto* buffer : {&parameters_, &gradients_, &velocity_, &copy_}) {
      *buffer = Must(device_->Allocate(count * static_cast<int64_t>(sizeof(float)), MemoryKind::kDevice));
    }
    bad_ = Must(device_->Allocate(sizeof(int32_t), MemoryKind::kDevice));
    rates_ = Must(device_->Allocate(sizeof(SgdRates), MemoryKind::kDevice));
    const SgdRates rates = {.learning_rate = 1e-3f, .gradient_scale = 0.5f};
    MustBeOk(device_->CopyToDevice(*stream_, rates_->data(), &rates, sizeof(rates)));
    Fill(*parameters_);
    Fill(*gradients_);
  }

  std::vector<Contestant> Contestants() {
    plain_ = Must(device_->CreateSgd({{{0, count_}, 0}}, 0));
    momentum_ = Must(device_->CreateSgd({{{0, count_}, 0}}, 0.9f));
    return {
        {"copy", 8, 0, [this] { return Copy(); }},
        {"sgd", 12, 0.85, [this] { return Update(*plain_, nullptr, false); }},
        {"sgd, momentum", 20, 0.85, [this] { return Update(*momentum_, velocity_->floats(), false); }},
        {"sgd, looking", 16, 0, [this] { return Update(*plain_, nullptr, true); }},
        {"sgd, momentum, looking", 24, 0, [this] { return Update(*momentum_, velocity_->floats(), true); }},
    };
  }

  // Measures one round of one contestant.
  void Measure(Contestant& contestant) {
    auto begin = Must(device_->CreateTimedEvent()), end = Must(device_->CreateTimedEvent());
    MustBeOk(contestant.run());  // Evicts what the previous contestant left in the caches.
    MustBeOk(begin->Record(*stream_));
    for (int i = 0; i < kCalls; ++i) MustBeOk(contestant.run());
    MustBeOk(end->Record(*stream_));
    MustBeOk(stream_->Synchronize());
    const auto nanoseconds = static_cast<double>(Must(end->Since(*begin)));
    contestant.bandwidths.push_back(contestant.bytes_per_element * static_cast<double>(count_) * kCalls /
                                    nanoseconds);
  }

 private:
  // Fills with non-zero values, since zeros can be faster.
  void Fill(Buffer& buffer) {
    std::vector<float> piece(std::min<int64_t>(count_, 1 << 20));
    for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<float>(i % 1009) * 1e-3f - 0.5f;
    for (int64_t at = 0; at < count_; at += static_cast<int64_t>(piece.size())) {
      const int64_t floats = std::min<int64_t>(static_cast<int64_t>(piece.size()), count_ - at);
      MustBeOk(device_->CopyToDevice(*stream_, buffer.floats() + at, piece.data(),
                                     floats * static_cast<int64_t>(sizeof(float))));
    }
  }

  absl::Status Copy() {
    return device_->CopyOnDevice(*stream_, copy_->data(), gradients_->data(), gradients_->bytes());
  }
  absl::Status Update(SgdPrimitive& sgd, float* velocity, bool look) {
    return sgd.Run(*stream_, {.rates = static_cast<const SgdRates*>(rates_->data()), .check_finite = look},
                   parameters_->floats(), gradients_->floats(), velocity,
                   static_cast<int32_t*>(bad_->data()));
  }

  const std::unique_ptr<Device> device_;
  const int64_t count_;
  const std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> parameters_, gradients_, velocity_, copy_, bad_, rates_;
  std::unique_ptr<SgdPrimitive> plain_, momentum_;
};

void Print(const Contestant& contestant, const Contestant& copy) {
  std::vector<double> ratios;
  for (size_t round = 0; round < copy.bandwidths.size(); ++round) {
    ratios.push_back(contestant.bandwidths[round] / copy.bandwidths[round]);
  }
  std::printf("%s\t%.1f\t%.3f\t", contestant.name.c_str(), Median(contestant.bandwidths), Median(ratios));
  if (contestant.limit > 0) std::printf("%.2f", contestant.limit);
  std::printf("\n");
}

int Run(const std::string& kind, int64_t millions, int rounds) {
  auto device = kind == "cuda" ? testing::CreateGpu() : CreateCpuDevice(1);
  if (!device.ok()) {
    std::fprintf(stderr, "update_bench: %s\n", StatusText(device.status()).c_str());
    return 1;
  }
  std::printf("%s; %lld M floats, %d rounds of %d calls\n", (*device)->Describe().c_str(),
              static_cast<long long>(millions), rounds, kCalls);
  Bench bench(*std::move(device), millions * 1'000'000);
  std::vector<Contestant> contestants = bench.Contestants();
  for (int round = 0; round < rounds; ++round) {
    for (Contestant& contestant : contestants) bench.Measure(contestant);
  }
  for (const Contestant& contestant : contestants) Print(contestant, contestants.front());
  return 0;
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  const int millions = argc > 2 ? std::atoi(argv[2]) : 100, rounds = argc > 3 ? std::atoi(argv[3]) : 31;
  if ((kind != "cpu" && kind != "cuda") || millions < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: update_bench cpu|cuda [MILLIONS OF FLOATS] [ROUNDS]\n");
    return 2;
  }
  return tethys::Run(kind, millions, rounds);
}
