#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace tethys {
namespace {

bool IsDecayed(const proto::Optimizer& config, absl::string_view variable) {
  const auto names_it = [variable](const std::string& part) { return absl::StrContains(variable, part); };
  const auto& excluded = config.no_weight_decay();
  if (excluded.empty()) return !names_it("bias");
  return std::none_of(excluded.begin(), excluded.end(), names_it);
}

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(Device& device, std::unique_ptr<SgdPrimitive> sgd, size_t slots)
      : device_(device), sgd_(std::move(sgd)), slots_(slots) {}

  absl::Status Initialize() {
    TETHYS_ASSIGN_OR_RETURN(state_, device_.Allocate(sizeof(State), MemoryKind::kDevice));
    TETHYS_ASSIGN_OR_RETURN(states_, device_.Allocate(2 * sizeof(State), MemoryKind::kPinnedHost));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t elements) override {
    std::vector<std::unique_ptr<Buffer>> slots(slots_);
    for (auto& slot : slots) {
      TETHYS_ASSIGN_OR_RETURN(
          slot, device_.Allocate(elements * static_cast<int64_t>(sizeof(float)), MemoryKind::kDevice));
    }
    return slots;
  }

  void SetRates(int parity, const Update& update) override {
    OfParity(parity).rates = {.learning_rate = static_cast<float>(update.learning_rate),
                              .gradient_scale = static_cast<float>(update.gradient_scale)};
  }

  absl::Status Enqueue(Stream& stream, int parity, const Update& update, float* parameters,
                       const float* gradient_sums, absl::Span<float* const> slots) override {
    TETHYS_CHECK(slots.size() == slots_, "SGD keeps ", slots_, " slots, not ", slots.size());
    State& host = OfParity(parity);
    auto* device = static_cast<State*>(state_->data());
    const SgdStep step = {
        .rates = &device->rates, .part = update.part, .check_finite = !update.gradients_are_finite};
    TETHYS_RETURN_IF_ERROR(device_.CopyToDevice(stream, &device->rates, &host.rates, sizeof(host.rates)));
    TETHYS_RETURN_IF_ERROR(
        sgd_->Run(stream, step, parameters, gradient_sums, slots.empty() ? nullptr : slots[0], &device->bad));
    return device_.CopyToHost(stream, &host.bad, &device->bad, sizeof(host.bad));
  }

  absl::Status Check(int parity) const override {
    if (OfParity(parity).bad == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "a gradient is NaN or infinite; parameters were left as they were. Lower optimizer.learning_rate, or "
        "check the data");
  }

 private:
  // Lies on the device, and in host memory once for each parity, which sends its rates and receives its flag.
  struct State {
    SgdRates rates;
    int32_t bad;
  };
  State& OfParity(int parity) const { return static_cast<State*>(states_->data())[parity]; }

  Device& device_;
  const std::unique_ptr<SgdPrimitive> sgd_;
  const size_t slots_;
  std::unique_ptr<Buffer> state_;
  std::unique_ptr<Buffer> states_;
};

}  // namespace

absl::Status Optimizer::Apply(Stream& stream, const Update& update, float* parameters,
                              const float* gradient_sums, absl::Span<float* const> slots) {
  SetRates(0, update);
  TETHYS_RETURN_IF_ERROR(Enqueue(stream, 0, update, parameters, gradient_sums, slots));
  TETHYS_RETURN_IF_ERROR(stream.Synchronize());
  return Check(0);
}

std::vector<std::string> SlotNames(const proto::Optimizer& config) {
  if (config.sgd().momentum() == 0) return {};
  return {"momentum"};
}

std::vector<UpdateRegion> MakeUpdateRegions(const proto::Optimizer& config,
                                            const std::vector<NamedRange>& ranges) {
  std::vector<UpdateRegion> regions;
  for (const auto& [variable, range] : ranges) {
    const double weight_decay = IsDecayed(config, variable) ? config.weight_decay() : 0;
    regions.push_back({.range = range, .weight_decay = static_cast<float>(weight_decay)});
  }
  return regions;
}

absl::StatusOr<std::unique_ptr<Optimizer>> CreateOptimizer(const proto::Optimizer& config, Device& device,
                                                           std::vector<UpdateRegion> regions) {
  if (!config.has_sgd()) {
    return absl::InvalidArgumentError("optimizer: has no kind; write sgd {} or sgd { momentum: 0.9 }");
  }
  const auto momentum = static_cast<float>(config.sgd().momentum());
  TETHYS_ASSIGN_OR_RETURN(auto sgd, device.CreateSgd(std::move(regions), momentum));
  auto optimizer = std::make_unique<SgdOptimizer>(device, std::move(sgd), SlotNames(config).size());
  TETHYS_RETURN_IF_ERROR(optimizer->Initialize());
  return optimizer;
}

}  // namespace tethys
