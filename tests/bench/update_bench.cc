// Measures the optimizers' bandwidth on a device: updates of one arena of 100 M floats, alternating with
// copies of it on the device, medians over rounds. The bandwidths count the bytes that must be read or
// written for an element:
//
//   copy                                   8    one float read, one written
//   an update                             12    parameter and gradient read, parameter written
//   for each slot of the optimizer        +8    the slot read and written
//   "looking" for non-finite values       +4    the gradients read once more, before the update
//   a trust ratio                   +8 or +12    parameter and gradient (LARS), or parameter and slots (LAMB)
//                                                read once more, after the norms
//
// Limits, for updates that do not look for non-finite values: SGD has at least 0.85 of the copy's bandwidth
// on a GPU, Adam at least 0.7 on any device.
//
//   update_bench cpu|cuda [MILLIONS OF FLOATS] [ROUNDS]     default 100 and 31
//
// Prints a line per contestant with fields separated by tabs: name, GB/s, ratio to the copy's GB/s, and the
// limit, which is empty if there is none.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tests/bench/must.h"
#include "tests/testing/gpu.h"

namespace tethys {
namespace {

constexpr int kCalls = 5;  // Consecutive calls between two events.

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Contestant {
  std::string name;
  double bytes_per_element;
  double limit;  // The least ratio to the bandwidth of a copy; 0: there is no limit.
  std::function<absl::Status()> run;
  std::vector<double> bandwidths = {};  // GB/s in each round.
};

class Bench {
 public:
  Bench(std::unique_ptr<Device> device, int64_t count)
      : device_(std::move(device)), count_(count), stream_(Must(device_->CreateStream())) {
    for (auto* buffer : {&parameters_, &gradients_, &slots_[0], &slots_[1], &copy_}) {
      *buffer = Must(device_->Allocate(count * static_cast<int64_t>(sizeof(float)), MemoryKind::kDevice));
    }
    bad_ = Must(device_->Allocate(sizeof(int32_t), MemoryKind::kDevice));
    rates_ = Must(device_->Allocate(sizeof(UpdateRates), MemoryKind::kDevice));
    const UpdateRates rates = {.learning_rate = 1e-3f, .gradient_scale = 0.5f};
    MustBeOk(device_->CopyToDevice(*stream_, rates_->data(), &rates, sizeof(rates)));
    Fill(*parameters_);
    Fill(*gradients_);
  }

  std::vector<Contestant> Contestants() {
    std::vector<Contestant> contestants = {{"copy", 8, 0, [this] { return Copy(); }}};
    const auto add = [&](const std::string& name, UpdateFormula formula, int slots, double limit,
                         double again = 0) {
      const UpdateRule rule = {formula,
                               {.momentum = 0.9f,
                                .mean_kept = 0.9f,
                                .mean_added = 0.1f,
                                .square_kept = 0.999f,
                                .square_added = 0.001f,
                                .epsilon = formula < UpdateFormula::kAdam ? 0 : 1e-8f,
                                .trust = 1e-3f}};
      updates_.push_back(Must(device_->CreateUpdate(rule, {{{0, count_}, 0}})));
      UpdatePrimitive& update = *updates_.back();
      const double bytes = 12 + 8 * slots + again;
      contestants.push_back(
          {name, bytes, limit, [this, &update, slots] { return Update(update, slots, false); }});
      contestants.push_back(
          {name + ", looking", bytes + 4, 0, [this, &update, slots] { return Update(update, slots, true); }});
    };
    add("sgd", UpdateFormula::kSgd, 0, 0.85);
    add("sgd, momentum", UpdateFormula::kMomentum, 1, 0.85);
    add("adam", UpdateFormula::kAdam, 2, 0.7);
    add("rmsprop", UpdateFormula::kRmsprop, 1, 0);
    add("adagrad", UpdateFormula::kAdagrad, 1, 0);
    add("lars", UpdateFormula::kLars, 1, 0, 8);
    add("lamb", UpdateFormula::kLamb, 2, 0, 12);
    return contestants;
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
  // Fills `buffer` with non-zero values, because operations on zeros can be faster.
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
  absl::Status Update(UpdatePrimitive& update, int slots, bool look) {
    float* const pointers[] = {slots_[0]->floats(), slots_[1]->floats()};
    return update.Run(
        *stream_, {.rates = static_cast<const UpdateRates*>(rates_->data()), .check_finite = look},
        parameters_->floats(), gradients_->floats(),
        absl::MakeConstSpan(pointers, static_cast<size_t>(slots)), static_cast<int32_t*>(bad_->data()));
  }

  const std::unique_ptr<Device> device_;
  const int64_t count_;
  const std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> parameters_, gradients_, copy_, bad_, rates_;
  std::unique_ptr<Buffer> slots_[2];
  std::vector<std::unique_ptr<UpdatePrimitive>> updates_;
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
