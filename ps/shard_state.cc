#include "ps/shard_state.h"

#include <algorithm>
#include <utility>

#include "ps/copy_past_caches.h"

namespace tethys {

ShardState::ShardState(const ShardLayout& layout, std::vector<OptimizerSlot> slots,
                       std::unique_ptr<Optimizer> optimizer, Stream& stream, bool keeps_undo)
    : layout_(layout),
      slot_kinds_(std::move(slots)),
      optimizer_(std::move(optimizer)),
      stream_(stream),
      slots_(slot_kinds_.size()),
      shadow_(keeps_undo ? 1 + slots_.size() : 0) {}

std::vector<Arena*> ShardState::arenas() {
  std::vector<Arena*> arenas = {&parameters_};
  for (Arena& slot : slots_) arenas.push_back(&slot);
  for (Arena& shadow : shadow_) arenas.push_back(&shadow);
  return arenas;
}

std::vector<const float*> ShardState::values() const {
  std::vector<const float*> values = {parameters_.data()};
  for (const Arena& slot : slots_) values.push_back(slot.data());
  return values;
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
  if (!shadow_.empty()) KeepUndo(update);
  return optimizer_->Apply(stream_, update, parameters_.data(), gradient_sums, slot_pointers_);
}

absl::Status ShardState::Measure(const Update& update, const float* gradient_sums,
                                 absl::Span<RegionSquares> squares) {
  if (!shadow_.empty()) KeepUndo(update);
  return optimizer_->Measure(stream_, update, parameters_.data(), gradient_sums, slot_pointers_, squares);
}

void ShardState::KeepUndo(const Update& update) {
  if (undo_number_ != update.number) {
    undo_.clear();
    undo_number_ = update.number;
  }
  const Range all = {0, layout_.local_size()};
  if (!undo_.empty() && undo_[0] == all) return;  // Measure has copied all elements already.
  const Range part = Intersection(update.part, all);
  undo_.push_back(part);
  for (size_t i = 0; i < shadow_.size(); ++i) {
    const float* const values = i == 0 ? parameters_.data() : slot_pointers_[i - 1];
    CopyPastCaches(values + part.begin, part.count, shadow_[i].data() + part.begin);
  }
}

void ShardState::TakeBack() {
  for (const Range& part : undo_) {
    for (size_t i = 0; i < shadow_.size(); ++i) {
      float* const values = i == 0 ? parameters_.data() : slot_pointers_[i - 1];
      std::copy_n(shadow_[i].data() + part.begin, part.count, values + part.begin);
    }
  }
  ForgetUndo();
}

void ShardState::ForgetUndo() {
  undo_.clear();
  undo_number_ = 0;
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
