// The state that a server keeps for its shards: parameters and optimizer slots, with the optimizer that
// updates them. Used by the store's thread.
//
// With keeps_undo, the last update can be taken back, whether it is complete or has only begun: before a
// range is changed, its parameters and slots are copied to a shadow, which the next update overwrites.
#ifndef TETHYS_PS_SHARD_STATE_H_
#define TETHYS_PS_SHARD_STATE_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ps/shard_layout.h"
#include "runtime/optim/optimizer.h"
#include "runtime/tensor/arena.h"

namespace tethys {

// Invariant: the ranges in undo_ are disjoint and contain every element that update undo_number_ has changed.
// For these elements, the shadow has the values from before that update.
class ShardState {
 public:
  // `optimizer` updates ranges of the server's memory (ShardLayout::Shard::local); `layout` and `stream`,
  // which belongs to the optimizer's device, must outlive the state.
  ShardState(const ShardLayout& layout, std::vector<OptimizerSlot> slots,
             std::unique_ptr<Optimizer> optimizer, Stream& stream, bool keeps_undo);

  // The arenas of parameters, of slots and, with undo, of a shadow of each. The owner must allocate
  // layout.local_size() elements for each arena before any other call.
  std::vector<Arena*> arenas();
  // Sets slots to their initial values. Parameters and padding stay zero.
  void Initialize();

  // The values of the parameters, then of each slot.
  std::vector<const float*> values() const;
  float* parameters() { return parameters_.data(); }
  const float* parameters() const { return parameters_.data(); }

  // Call Optimizer::Apply and Measure on the parameters and slots. With undo, all calls for one update must
  // have the same Update::number, which must differ from the number of the previous update; Measure must come
  // before Apply, and no element may be updated twice.
  absl::Status Apply(const Update& update, const float* gradient_sums);
  absl::Status Measure(const Update& update, const float* gradient_sums, absl::Span<RegionSquares> squares);

  // The number of the update that can be taken back; 0: none.
  int64_t undo_number() const { return undo_number_; }
  // Takes back the update numbered undo_number(): everything that it has changed gets its earlier values, bit
  // by bit. No-op if undo_number() is 0.
  void TakeBack();
  // Forgets the last update: TakeBack has no effect until another update is made.
  void ForgetUndo();

  // Calls `function` for all shards of slot 0 (the parameters), then of slots 1, 2, ... (the optimizer's).
  using ShardFunction =
      absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<float> values)>;
  absl::Status ForEachShard(ShardFunction function);

 private:
  // Copies the parameters and slots that `update` is about to change to the shadow.
  void KeepUndo(const Update& update);

  const ShardLayout& layout_;
  const std::vector<OptimizerSlot> slot_kinds_;
  const std::unique_ptr<Optimizer> optimizer_;
  Stream& stream_;
  Arena parameters_;
  std::vector<Arena> slots_;
  std::vector<float*> slot_pointers_;
  std::vector<Arena> shadow_;  // Copies of the parameters and of each slot; empty without undo.
  std::vector<Range> undo_;
  int64_t undo_number_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_SHARD_STATE_H_
