#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/match.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

bool IsDecayed(const proto::Optimizer& config, absl::string_view variable) {
  const auto names_it = [variable](const std::string& part) { return absl::StrContains(variable, part); };
  const auto& excluded = config.no_weight_decay();
  return std::none_of(excluded.begin(), excluded.end(), names_it);
}

class RuleOptimizer final : public Optimizer {
 public:
  RuleOptimizer(const proto::Optimizer& config, const OptimizerKind& kind, Device& device,
                std::vector<UpdateRegion> regions)
      : config_(config), kind_(kind), device_(device), regions_(std::move(regions)) {}

  absl::Status Initialize() {
    UpdateRule rule = kind_.rule(config_);
    rule.decoupled_decay = config_.decoupled_weight_decay();
    TETHYS_ASSIGN_OR_RETURN(update_, device_.CreateUpdate(rule, regions_));
    if (config_.has_clip()) {
      TETHYS_ASSIGN_OR_RETURN(clip_, device_.CreateClip(config_.clip().global_norm(), regions_));
    }
    TETHYS_ASSIGN_OR_RETURN(state_, device_.Allocate(sizeof(State), MemoryKind::kDevice));
    TETHYS_ASSIGN_OR_RETURN(states_, device_.Allocate(2 * sizeof(State), MemoryKind::kPinnedHost));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t elements) override {
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (const OptimizerSlot& slot : SlotsOf(config_)) {
      TETHYS_ASSIGN_OR_RETURN(buffers.emplace_back(),
                              device_.Allocate(elements * kFloatBytes, MemoryKind::kDevice));
      if (slot.initial_value != 0) TETHYS_RETURN_IF_ERROR(Fill(slot.initial_value, *buffers.back()));
    }
    return buffers;
  }

  void SetRates(int parity, const Update& update) override {
    UpdateCorrections corrections;
    if (kind_.corrections != nullptr) corrections = kind_.corrections(config_, update.number);
    OfParity(parity).rates = {.learning_rate = static_cast<float>(update.learning_rate),
                              .gradient_scale = static_cast<float>(update.gradient_scale),
                              .first_correction = static_cast<float>(corrections.first),
                              .root_square_correction = static_cast<float>(corrections.root_square)};
    OfParity(parity).bad = kOpen;
  }

  absl::Status Enqueue(Stream& stream, int parity, const Update& update, float* parameters,
                       const float* gradient_sums, absl::Span<float* const> slots) override {
    State& host = OfParity(parity);
    auto* device = static_cast<State*>(state_->data());
    const UpdateStep step = {.rates = &device->rates,
                             .part = update.part,
                             .check_finite = !update.gradients_are_finite,
                             .squares = update.squares};
    TETHYS_RETURN_IF_ERROR(device_.CopyToDevice(stream, &device->rates, &host.rates, sizeof(host.rates)));
    if (clip_ != nullptr) {
      TETHYS_CHECK(step.part == kWholeArena, "a part of the gradients cannot be clipped");
      TETHYS_RETURN_IF_ERROR(clip_->Run(stream, gradient_sums, &device->rates));
    }
    TETHYS_RETURN_IF_ERROR(update_->Run(stream, step, parameters, gradient_sums, slots, &device->bad));
    return device_.CopyToHost(stream, &host.bad, &device->bad, sizeof(host.bad));
  }

  absl::Status Measure(Stream& stream, const Update& update, const float* parameters,
                       const float* gradient_sums, absl::Span<float* const> slots,
                       absl::Span<RegionSquares> squares) override {
    SetRates(0, update);
    auto* rates = &static_cast<State*>(state_->data())->rates;
    TETHYS_RETURN_IF_ERROR(device_.CopyToDevice(stream, rates, &OfParity(0).rates, sizeof(*rates)));
    TETHYS_RETURN_IF_ERROR(
        update_->Measure(stream, {.rates = rates}, parameters, gradient_sums, slots, squares));
    return stream.Synchronize();
  }

  const int32_t* refused() const override { return &static_cast<const State*>(state_->data())->bad; }

  absl::Status Check(int parity) const override {
    if (outcome(parity) == Outcome::kMade) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "a gradient is NaN or infinite; parameters were left as they were. Lower optimizer.learning_rate, or "
        "check the data");
  }

  void Refuse() override {
    for (const int parity : {0, 1}) std::atomic_ref(OfParity(parity).rates.refused).store(1);
  }

  Outcome outcome(int parity) const override {
    const int32_t bad = std::atomic_ref(OfParity(parity).bad).load();
    return bad == kOpen ? Outcome::kOpen : bad == 0 ? Outcome::kMade : Outcome::kRefused;
  }

 private:
  // The rates of an update, and the flag that a gradient was not finite or that the update was refused. All
  // updates use the single State in device memory (state_). Host memory contains one State for each parity
  // (states_): an update begins with a copy of the rates to the device, and ends with a copy of the flag to
  // the host, where the flag is kOpen until then. So the copy of the rates is the moment at which Refuse
  // takes effect: one value is read for the whole update.
  struct State {
    UpdateRates rates;
    int32_t bad;
  };
  static constexpr int32_t kOpen = -1;
  State& OfParity(int parity) const { return static_cast<State*>(states_->data())[parity]; }

  absl::Status Fill(float value, Buffer& slot) {
    TETHYS_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device_.CreateStream());
    for (const UpdateRegion& region : regions_) {
      const std::vector<float> values(static_cast<size_t>(region.range.count), value);
      TETHYS_RETURN_IF_ERROR(device_.CopyToDevice(*stream, slot.floats() + region.range.begin, values.data(),
                                                  region.range.count * kFloatBytes));
    }
    return stream->Synchronize();
  }

  const proto::Optimizer config_;
  const OptimizerKind& kind_;
  Device& device_;
  const std::vector<UpdateRegion> regions_;
  std::unique_ptr<UpdatePrimitive> update_;
  std::unique_ptr<ClipPrimitive> clip_;  // Null: gradients are not clipped.
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

std::vector<OptimizerSlot> SlotsOf(const proto::Optimizer& config) {
  const OptimizerKind* kind = FindOptimizerKind(config);
  return kind == nullptr ? std::vector<OptimizerSlot>() : kind->slots(config);
}

std::vector<UpdateRegion> MakeUpdateRegions(const proto::Optimizer& config,
                                            const std::vector<NamedRange>& ranges) {
  std::vector<UpdateRegion> regions;
  for (const auto& [variable, range] : ranges) {
    const bool decayed = IsDecayed(config, variable);
    const double weight_decay = decayed ? config.weight_decay() : 0;
    regions.push_back({.range = range, .weight_decay = static_cast<float>(weight_decay), .adapted = decayed});
  }
  return regions;
}

absl::StatusOr<std::unique_ptr<Optimizer>> CreateOptimizer(const proto::Optimizer& config, Device& device,
                                                           std::vector<UpdateRegion> regions) {
  const OptimizerKind* kind = FindOptimizerKind(config);
  if (kind == nullptr) {
    return absl::InvalidArgumentError(
        "optimizer: has no kind; write sgd {} or another member of kind in job.proto");
  }
  auto optimizer = std::make_unique<RuleOptimizer>(config, *kind, device, std::move(regions));
  TETHYS_RETURN_IF_ERROR(optimizer->Initialize());
  return optimizer;
}

}  // namespace tethys
