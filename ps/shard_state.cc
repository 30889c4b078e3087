#include "ps/shard_state.h"

#include <algorithm>
#include <utility>

namespace tethys {

ShardState::ShardState(const ShardLayout& layout, std::vector<OptimizerSlot> slots,
                       std::unique_ptr<Optimizer> optimizer, Stream& stream)
    : layout_(layout),
      slot_kinds_(std::move(slots)),
      optimizer_(std::move(optimizer)),
      stream_(stream),
      slots_(slot_kinds_.size()) {}

std::vector<Arena*> ShardState::arenas() {
  std::vector<Arena*> arenas = {&parameters_};
  for (Arena& slot : slots_) arenas.push_back(&slot);
  return arenas;
}

void ShardState::Initialize() {
  slot_pointers_.clear();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    slot_pointers_.push_back(slots_[slot].data());
    for (const ShardLayout::Shard& shard : layout_.shards()) {
      const absl::Span<float> values = slots_[slot].Slice(shard.local);
      std::fill(values.begin(), values.end(), slot_kinds_[slot].initial_value);
    }
  }
}

absl::Status ShardState::Apply(const Update& update, const float* gradient_sums) {
  return optimizer_->Apply(stream_, update, parameters_.data(), gradient_sums, slot_pointers_);
}

absl::Status ShardState::Measure(const Update& update, const float* gradient_sums,
                                 absl::Span<RegionSquares> squares) {
  return optimizer_->Measure(stream_, update, parameters_.data(), gradient_sums, slot_pointers_, squares);
}

absl::Status ShardState::ForEachShard(ShardFunction function) {
  for (size_t slot = 0; slot <= slots_.size(); ++slot) {
    Arena& arena = slot == 0 ? parameters_ : slots_[slot - 1];
    for (const ShardLayout::Shard& shard : layout_.shards()) {
      TETHYS_RETURN_IF_ERROR(function(static_cast<int>(slot), shard.arena.begin, arena.Slice(shard.local)));
    }
  }
  return absl::OkStatus();
}

}  // namespace tethys
