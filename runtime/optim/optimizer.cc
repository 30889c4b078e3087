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
  SgdOptimizer(Device& device, std::unique_ptr<SgdPrimitive> sgd, std::unique_ptr<Buffer> finite,
               size_t slots)
      : device_(device), sgd_(std::move(sgd)), finite_(std::move(finite)), slots_(slots) {}

  absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t elements) override {
    std::vector<std::unique_ptr<Buffer>> slots(slots_);
    for (auto& slot : slots) {
      TETHYS_ASSIGN_OR_RETURN(
          slot, device_.Allocate(elements * static_cast<int64_t>(sizeof(float)), MemoryKind::kDevice));
    }
    return slots;
  }

  absl::Status Apply(Stream& stream, const Update& update, float* parameters, const float* gradient_sums,
                     absl::Span<float* const> slots) override {
    TETHYS_CHECK(slots.size() == slots_, "SGD keeps ", slots_, " slots, not ", slots.size());
    const SgdStep step = {.learning_rate = static_cast<float>(update.learning_rate),
                          .gradient_scale = static_cast<float>(update.gradient_scale),
                          .part = update.part,
                          .check_finite = !update.gradients_are_finite};
    TETHYS_RETURN_IF_ERROR(sgd_->Run(stream, step, parameters, gradient_sums,
                                     slots.empty() ? nullptr : slots[0],
                                     static_cast<int32_t*>(finite_->data())));
    int32_t finite = 0;
    TETHYS_RETURN_IF_ERROR(device_.CopyToHost(stream, &finite, finite_->data(), sizeof(finite)));
    TETHYS_RETURN_IF_ERROR(stream.Synchronize());
    if (finite == 1) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "a gradient is NaN or infinite; parameters were left as they were. Lower optimizer.learning_rate, or "
        "check the data");
  }

 private:
  Device& device_;
  const std::unique_ptr<SgdPrimitive> sgd_;
  const std::unique_ptr<Buffer> finite_;  // One int32.
  const size_t slots_;
};

}  // namespace

std::vector<std::string> SlotNames(const proto::Optimizer& config) {
  if (config.sgd().momentum() == 0) return {};
  return {"momentum"};
}

std::vector<Segment> MakeSegments(const proto::Optimizer& config, const std::vector<NamedRange>& ranges) {
  std::vector<Segment> segments;
  for (const auto& [variable, range] : ranges) {
    const double weight_decay = IsDecayed(config, variable) ? config.weight_decay() : 0;
    segments.push_back({.range = range, .weight_decay = static_cast<float>(weight_decay)});
  }
  return segments;
}

absl::StatusOr<std::unique_ptr<Optimizer>> CreateOptimizer(const proto::Optimizer& config, Device& device,
                                                           std::vector<Segment> segments) {
  if (!config.has_sgd()) {
    return absl::InvalidArgumentError("optimizer: has no kind; write sgd {} or sgd { momentum: 0.9 }");
  }
  const auto momentum = static_cast<float>(config.sgd().momentum());
  TETHYS_ASSIGN_OR_RETURN(auto sgd, device.CreateSgd(std::move(segments), momentum));
  TETHYS_ASSIGN_OR_RETURN(auto finite, device.Allocate(sizeof(int32_t), MemoryKind::kDevice));
  return std::make_unique<SgdOptimizer>(device, std::move(sgd), std::move(finite), SlotNames(config).size());
}

}  // namespace tethys
