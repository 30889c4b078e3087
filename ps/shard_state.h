// The state that a server keeps for its shards: parameters and optimizer slots, with the optimizer that
// updates them. Used by the store's thread.
#ifndef TETHYS_PS_SHARD_STATE_H_
#define TETHYS_PS_SHARD_STATE_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ps/shard_layout.h"
#include "runtime/optim/optimizer.h"
#include "runtime/tensor/arena.h"

namespace tethys {

class ShardState {
 public:
  // `optimizer` updates ranges of the server's memory (ShardLayout::Shard::local); `layout` and `stream`,
  // which belongs to the optimizer's device, outlive the state.
  ShardState(const ShardLayout& layout, std::vector<OptimizerSlot> slots,
             std::unique_ptr<Optimizer> optimizer, Stream& stream);

  // The arenas that the owner allocates, with layout.local_size() elements each, before any other call:
  // parameters, then slots.
  std::vector<Arena*> arenas();
  // Sets slots to their initial values. Parameters and padding stay zero.
  void Initialize();

  float* parameters() { return parameters_.data(); }
  const float* parameters() const { return parameters_.data(); }

  // Optimizer::Apply and Measure on the parameters and slots.
  absl::Status Apply(const Update& update, const float* gradient_sums);
  absl::Status Measure(const Update& update, const float* gradient_sums, absl::Span<RegionSquares> squares);

  // Calls `function` for all shards of slot 0 (the parameters), then of slots 1, 2, ... (the optimizer's).
  using ShardFunction =
      absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<float> values)>;
  absl::Status ForEachShard(ShardFunction function);

 private:
  const ShardLayout& layout_;
  const std::vector<OptimizerSlot> slot_kinds_;
  const std::unique_ptr<Optimizer> optimizer_;
  Stream& stream_;
  Arena parameters_;
  std::vector<Arena> slots_;
  std::vector<float*> slot_pointers_;
};

}  // namespace tethys

#endif  // TETHYS_PS_SHARD_STATE_H_
