// StepBlocks finds the blocks of a step and the times [first, last] at which each is needed; PlaceBlocks then
// gives each block a position.
//
// Each time stands for one piece of work, in this order: the conversion of the batch, forward of each layer,
// the loss, and backward of each layer, where repeated layers run before the layer that needs them. A value
// is needed from the layer that writes it to the last layer that reads it. Reads in backward count too,
// unless backward computes the value again. The gradient of a layer's output is needed from the first
// backward that writes to it until the backward of that layer. If a layer permits it, and if no later layer
// reads the overwritten values, the layer's output takes the block of its input, and the gradient of its
// input takes the block of the gradient of its output.
//
// Invariant: two blocks that are needed at the same time never overlap, so memory is never below
// PeakElements.
#include "runtime/nn/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/nn/recomputation.h"
#include "runtime/tensor/variable.h"

namespace tethys {
namespace {

bool Meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Puts each block, in the order given, at the lowest position that is free at all times at which the block is
// needed.
Placement PlaceInOrder(absl::Span<const Lifetime> blocks, absl::Span<const size_t> order) {
  Placement placement{.begin = std::vector<int64_t>(blocks.size())};
  std::vector<size_t> placed;  // Blocks that are placed, ordered by position.
  for (const size_t block : order) {
    const int64_t size = AlignUp(blocks[block].elements);
    int64_t begin = 0;
    for (const size_t other : placed) {
      if (!Meet(blocks[block], blocks[other])) continue;
      if (begin + size <= placement.begin[other]) break;
      begin = std::max(begin, placement.begin[other] + AlignUp(blocks[other].elements));
    }
    placement.begin[block] = begin;
    placement.elements = std::max(placement.elements, begin + size);
    const auto by_begin = [&](int64_t value, size_t other) { return value < placement.begin[other]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), begin, by_begin), block);
  }
  return placement;
}

// Tries orders of blocks, and keeps the placement that needs the least memory.
class Search {
 public:
  explicit Search(absl::Span<const Lifetime> blocks)
      : blocks_(blocks), peak_(PeakElements(blocks)), tries_(Tries(static_cast<int64_t>(blocks.size()))) {}

  const Placement& best() const { return best_; }

  // Tries the order. Then, as long as the best placement is more than 2 % above the peak, moves the block
  // that lies highest in memory forward in the order, to half of its index, and tries again.
  void TryFrom(std::vector<size_t> order) {
    for (int64_t i = 0; i < tries_ && best_.elements > peak_ + peak_ / 50; ++i) {
      Placement placement = PlaceInOrder(blocks_, order);
      const auto end = [&](size_t block) {
        return placement.begin[block] + AlignUp(blocks_[block].elements);
      };
      const auto highest =
          std::max_element(order.begin(), order.end(), [&](size_t a, size_t b) { return end(a) < end(b); });
      if (highest != order.end())
        std::rotate(order.begin() + (highest - order.begin()) / 2, highest, highest + 1);
      if (placement.elements < best_.elements) best_ = std::move(placement);
    }
  }

 private:
  const absl::Span<const Lifetime> blocks_;
  // The number of tries from each order. The time of one try grows with the square of the number of blocks.
  static int64_t Tries(int64_t blocks) {
    constexpr int64_t kMostTries = 64, kPairs = int64_t{1} << 21;
    return std::clamp(kPairs / std::max<int64_t>(1, blocks * blocks), int64_t{1}, kMostTries);
  }

  const int64_t peak_;
  const int64_t tries_;
  Placement best_{.elements = std::numeric_limits<int64_t>::max()};
};

// The blocks of a step: which value, gradient or part of a gradient lies in which block.
class StepBlocks {
 public:
  // `longest_chain` is as in FindRecomputations; 0: no value is computed again.
  StepBlocks(const LayerGraph& graph, int64_t rows, bool trains, int longest_chain);

  const std::vector<Lifetime>& lifetimes() const { return lifetimes_; }
  StepMemory Place(const Placement& placement) const;

 private:
  static constexpr int kNoBlock = -1;
  static constexpr int kNever = -1;

  // The times of a step: the batch is converted at time 0. Then layers run forward, the loss is computed, and
  // layers run backward, each after the layers that are repeated for it.
  int forward(int layer) const { return layer + 1; }
  int loss() const { return graph_.layer_count() + 1; }
  int backward(int layer) const { return backward_[layer]; }
  bool repeats(int layer) const { return repeat_[layer] != kNever; }

  // Sets the times at which layers run backward.
  void ScheduleBackward(absl::Span<const int> recomputations);
  int Add(int64_t row_elements, int first, int last);
  // Returns the block of a layer's output, which is written at `time` and needed until `last`: a new block,
  // or the block of the layer's first input if that input is not needed any more.
  int AddOutput(int layer, absl::Span<const int> inputs, int time, int last);
  void AddValues(absl::Span<const BackwardReads> reads);
  // Adds blocks for the values that backward computes again.
  void AddRepeated(absl::Span<const BackwardReads> reads);
  void AddGradients();
  // Puts the gradient of the input into the memory of the gradient of the layer's output.
  void Share(int layer, int input);

  const LayerGraph& graph_;
  const int64_t rows_;
  std::vector<Lifetime> lifetimes_;
  std::vector<int> values_, gradients_;  // For each value, the number of its block.
  std::vector<int> again_;  // For each value that is computed again, the number of its second block.
  // For each layer, the layers that are repeated before its backward (StepMemory::repeats).
  std::vector<std::vector<int>> repeats_;
  // For each layer, the times at which the layer is repeated and at which its backward runs.
  std::vector<int> repeat_, backward_;
  // For each layer and input, the number of the block for the layer's part of the input's gradient; kNoBlock
  // if the part needs no block of its own.
  std::vector<std::vector<int>> parts_;
};

StepBlocks::StepBlocks(const LayerGraph& graph, int64_t rows, bool trains, int longest_chain)
    : graph_(graph),
      rows_(rows),
      values_(graph.layer_count() + 1, kNoBlock),
      gradients_(graph.layer_count() + 1, kNoBlock),
      again_(graph.layer_count() + 1, kNoBlock),
      repeats_(graph.layer_count()),
      repeat_(graph.layer_count(), kNever),
      backward_(graph.layer_count(), kNever),
      parts_(graph.layer_count()) {
  std::vector<BackwardReads> reads(values_.size());
  if (trains) {
    reads = FindBackwardReads(graph);
    ScheduleBackward(FindRecomputations(graph, reads, longest_chain));
  }
  AddValues(reads);
  for (int i = 0; i < graph.layer_count(); ++i) {
    parts_[i].assign(graph.layers()[i].inputs.size(), kNoBlock);
  }
  if (!trains) return;
  AddRepeated(reads);
  AddGradients();
}

void StepBlocks::ScheduleBackward(absl::Span<const int> recomputations) {
  for (int i = 0; i < graph_.layer_count(); ++i) {
    if (recomputations[i + 1] != kNoLayer) repeats_[recomputations[i + 1]].push_back(i);
  }
  int time = loss();
  for (int i = graph_.layer_count(); i-- > 0;) {
    for (const int repeated : repeats_[i]) repeat_[repeated] = ++time;
    backward_[i] = ++time;
  }
}

int StepBlocks::Add(int64_t row_elements, int first, int last) {
  lifetimes_.push_back({rows_ * row_elements, first, last});
  return static_cast<int>(lifetimes_.size()) - 1;
}

int StepBlocks::AddOutput(int index, absl::Span<const int> inputs, int time, int last) {
  const GraphLayer& layer = graph_.layers()[index];
  const int source = inputs[layer.inputs[0]];
  // The first input's value must not be needed once the output is written, nor may another operand be in
  // the same block.
  const bool in_place = layer.use.overwrites_input && source != kNoBlock &&
                        graph_.elements(layer.inputs[0]) == layer.out && lifetimes_[source].last <= time &&
                        std::none_of(layer.inputs.begin() + 1, layer.inputs.end(),
                                     [&](int other) { return inputs[other] == source; });
  if (!in_place) return Add(layer.out, time, last);
  lifetimes_[source].last = last;
  return source;
}

void StepBlocks::AddValues(absl::Span<const BackwardReads> reads) {
  std::vector<int> last(values_.size());
  for (int i = 0; i < graph_.layer_count(); ++i) {
    last[i + 1] = forward(i);
    for (const int input : graph_.layers()[i].inputs) last[input] = forward(i);
  }
  last.back() = loss();
  for (size_t value = 0; value < last.size(); ++value) {
    const bool kept = reads[value].any() && (value == 0 || !repeats(static_cast<int>(value) - 1));
    if (kept) last[value] = backward(reads[value].last);
  }
  values_[0] = Add(graph_.elements(0), 0, last[0]);
  for (int i = 0; i < graph_.layer_count(); ++i) {
    values_[i + 1] = AddOutput(i, values_, forward(i), last[i + 1]);
  }
}

void StepBlocks::AddRepeated(absl::Span<const BackwardReads> reads) {
  std::vector<int> last(again_.size());
  for (int i = 0; i < graph_.layer_count(); ++i) {
    if (!repeats(i)) continue;
    last[i + 1] = reads[i + 1].any() ? backward(reads[i + 1].last) : repeat_[i];
    for (const int input : graph_.layers()[i].inputs) last[input] = std::max(last[input], repeat_[i]);
  }
  for (int i = 0; i < graph_.layer_count(); ++i) {
    if (repeats(i)) again_[i + 1] = AddOutput(i, again_, repeat_[i], last[i + 1]);
  }
}

void StepBlocks::AddGradients() {
  const int layers = graph_.layer_count();
  gradients_[layers] = Add(graph_.elements(layers), loss(), backward(layers - 1));
  for (int i = layers; i-- > 0;) {
    if (!graph_.runs_backward(i)) continue;
    const GraphLayer& layer = graph_.layers()[i];
    for (size_t j = 0; j < layer.inputs.size(); ++j) {
      const int input = layer.inputs[j];
      switch (graph_.gradient_parts(i)[j]) {
        case GradientPart::kNone:
          break;
        case GradientPart::kShared:
          Share(i, input);
          break;
        case GradientPart::kWritten:
          if (layer.use.overwrites_gradient && !graph_.keeps_gradient(i) &&
              graph_.elements(input) == layer.out) {
            Share(i, input);
          } else {
            gradients_[input] = Add(graph_.elements(input), backward(i), backward(input - 1));
          }
          break;
        case GradientPart::kCopied:
          gradients_[input] = Add(graph_.elements(input), backward(i), backward(input - 1));
          break;
        case GradientPart::kAdded:
          if (!layer.use.passes_gradient) {
            parts_[i][j] = Add(graph_.elements(input), backward(i), backward(i));
          }
          break;
      }
    }
  }
}

void StepBlocks::Share(int layer, int input) {
  gradients_[input] = gradients_[layer + 1];
  int& last = lifetimes_[gradients_[input]].last;
  last = std::max(last, backward(input - 1));
}

StepMemory StepBlocks::Place(const Placement& placement) const {
  const auto begin = [&](int block) {
    return block == kNoBlock ? StepMemory::kAbsent : placement.begin[block];
  };
  StepMemory memory{.elements = placement.elements};
  for (const int block : values_) memory.values.push_back(begin(block));
  for (const int block : gradients_) memory.gradients.push_back(begin(block));
  for (const int block : again_) memory.again.push_back(begin(block));
  memory.repeats = repeats_;
  for (const std::vector<int>& inputs : parts_) {
    std::vector<int64_t>& parts = memory.parts.emplace_back();
    for (const int block : inputs) parts.push_back(begin(block));
  }
  return memory;
}

// Returns the longest_chain, among 0 and the powers of two, that gives the lowest peak. If several give this
// peak, returns the smallest of them.
int BestChain(const LayerGraph& graph, int64_t rows) {
  int best = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int chain = 0; chain < 2 * graph.layer_count(); chain = std::max(1, 2 * chain)) {
    const StepBlocks blocks(graph, rows, /*trains=*/true, chain);
    const int64_t peak = PeakElements(blocks.lifetimes());
    if (peak < least) std::tie(least, best) = std::tie(peak, chain);
  }
  return best;
}

}  // namespace

Placement PlaceBlocks(absl::Span<const Lifetime> blocks) {
  using Key = std::function<double(const Lifetime&)>;
  const Key keys[] = {
      [](const Lifetime& block) { return -static_cast<double>(block.elements); },
      [](const Lifetime& block) {
        return -static_cast<double>(block.elements) * (block.last - block.first + 1);
      },
      [](const Lifetime& block) { return static_cast<double>(block.first - block.last); },
      [](const Lifetime& block) { return static_cast<double>(block.first); },
      [](const Lifetime& block) { return static_cast<double>(-block.last); },
  };
  constexpr size_t kManyBlocks = 2048;
  Search search(blocks);
  for (const Key& key : keys) {
    std::vector<size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(key(blocks[a]), a) < std::pair(key(blocks[b]), b);
    });
    search.TryFrom(std::move(order));
    // The time of a try grows with the square of the number of blocks, so very many blocks are tried in the
    // first order only.
    if (blocks.size() > kManyBlocks) break;
  }
  return search.best();
}

int64_t PeakElements(absl::Span<const Lifetime> blocks) {
  // Changes of the memory in use: the elements of a block are added at its first time, and subtracted at the
  // time that follows its last time.
  std::vector<std::pair<int, int64_t>> changes;
  for (const Lifetime& block : blocks) {
    changes.emplace_back(block.first, AlignUp(block.elements));
    changes.emplace_back(block.last + 1, -AlignUp(block.elements));
  }
  // At equal times the subtractions, which are negative, come first.
  std::sort(changes.begin(), changes.end());
  int64_t peak = 0, sum = 0;
  for (const auto& [time, elements] : changes) peak = std::max(peak, sum += elements);
  return peak;
}

StepMemory PlanStepMemory(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes) {
  const StepBlocks blocks(graph, rows, trains, trains && recomputes ? BestChain(graph, rows) : 0);
  return blocks.Place(PlaceBlocks(blocks.lifetimes()));
}

std::vector<Lifetime> StepLifetimes(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes) {
  return StepBlocks(graph, rows, trains, trains && recomputes ? BestChain(graph, rows) : 0).lifetimes();
}

absl::Status CheckRows(const LayerGraph& graph, int64_t rows) {
  if (rows >= 1 && rows <= (int64_t{1} << 31) && graph.widest() <= (int64_t{1} << 40) / rows) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a batch must have 1 row or more and not be too large for memory; it has ", rows,
                   " rows, and the widest layer has ", graph.widest(), " elements"));
}

}  // namespace tethys
