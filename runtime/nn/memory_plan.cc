#include "runtime/nn/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/tensor/variable.h"

namespace tethys {
namespace {

bool Meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Puts the blocks, in the order given, at the lowest position that is free while they are needed.
Placement PlaceInOrder(absl::Span<const Lifetime> blocks, absl::Span<const size_t> order) {
  Placement placement{.begin = std::vector<int64_t>(blocks.size())};
  std::vector<size_t> placed;  // By position.
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

// Tries orders and keeps the one that needs the least memory.
class Search {
 public:
  explicit Search(absl::Span<const Lifetime> blocks)
      : blocks_(blocks), peak_(PeakElements(blocks)), tries_(Tries(static_cast<int64_t>(blocks.size()))) {}

  const Placement& best() const { return best_; }

  // Tries the order, then moves the block that lies highest forward by half its position, again and again, as
  // long as the best placement is more than 2 % above the peak.
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
  // The tries from each order. The time of one grows with the square of the number of blocks.
  static int64_t Tries(int64_t blocks) {
    constexpr int64_t kMostTries = 64, kPairs = int64_t{1} << 21;
    return std::clamp(kPairs / std::max<int64_t>(1, blocks * blocks), int64_t{1}, kMostTries);
  }

  const int64_t peak_;
  const int64_t tries_;
  Placement best_{.elements = std::numeric_limits<int64_t>::max()};
};

// The blocks of a step, and which value, gradient or part lies in which.
class StepBlocks {
 public:
  StepBlocks(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes);

  const std::vector<Lifetime>& lifetimes() const { return lifetimes_; }
  StepMemory Place(const Placement& placement) const;

 private:
  static constexpr int kNoBlock = -1;
  static constexpr int kNever = -1;

  // The batch is converted at time 0. Then layers run forward, the loss is computed, and layers run backward.
  int forward(int layer) const { return layer + 1; }
  int loss() const { return graph_.layer_count() + 1; }
  int backward(int layer) const { return 2 * graph_.layer_count() + 1 - layer; }
  int layer_at(int backward_time) const { return 2 * graph_.layer_count() + 1 - backward_time; }

  int Add(int64_t row_elements, int first, int last);
  // The times at which each value is read, by forward and by backward.
  struct Reads {
    int last_forward = 0;
    int first_backward = kNever, last_backward = kNever;
    int last() const { return std::max(last_forward, last_backward); }
  };
  std::vector<Reads> FindReads(bool trains) const;
  void Recompute(std::vector<Reads>& reads);
  void AddValues(absl::Span<const Reads> reads);
  void AddGradients();
  // Puts the gradient of the input into the memory of that of the layer's output.
  void Share(int layer, int input);

  const LayerGraph& graph_;
  const int64_t rows_;
  std::vector<Lifetime> lifetimes_;
  std::vector<int> values_, gradients_;  // Blocks, by value.
  std::vector<int> again_;               // Likewise, of values that are computed again.
  std::vector<std::vector<int>> repeats_;
  std::vector<std::vector<int>> parts_;  // Blocks, by layer and input.
};

StepBlocks::StepBlocks(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes)
    : graph_(graph),
      rows_(rows),
      values_(graph.layer_count() + 1, kNoBlock),
      gradients_(graph.layer_count() + 1, kNoBlock),
      again_(graph.layer_count() + 1, kNoBlock),
      repeats_(graph.layer_count()),
      parts_(graph.layer_count()) {
  std::vector<Reads> reads = FindReads(trains);
  if (trains && recomputes) Recompute(reads);
  AddValues(reads);
  for (int i = 0; i < graph.layer_count(); ++i) {
    parts_[i].assign(graph.layers()[i].inputs.size(), kNoBlock);
  }
  if (trains) AddGradients();
}

int StepBlocks::Add(int64_t row_elements, int first, int last) {
  lifetimes_.push_back({rows_ * row_elements, first, last});
  return static_cast<int>(lifetimes_.size()) - 1;
}

std::vector<StepBlocks::Reads> StepBlocks::FindReads(bool trains) const {
  std::vector<Reads> reads(values_.size());
  const auto read_backward = [&](int value, int layer) {
    Reads& times = reads[value];
    if (times.first_backward == kNever) times.last_backward = backward(layer);
    times.first_backward = backward(layer);
  };
  // Backward visits the layers from the last one, so the layers here come in the reverse of its order.
  for (int i = 0; i < graph_.layer_count(); ++i) {
    const GraphLayer& layer = graph_.layers()[i];
    const bool backward_runs = trains && graph_.runs_backward(i);
    reads[i + 1].last_forward = forward(i);
    if (backward_runs && layer.use.backward_reads_output) read_backward(i + 1, i);
    for (const int input : layer.inputs) {
      reads[input].last_forward = forward(i);
      if (backward_runs && layer.use.backward_reads_inputs) read_backward(input, i);
    }
  }
  reads.back().last_forward = loss();
  return reads;
}

// Ends the forward reads of values that backward computes again, and adds their blocks of backward.
void StepBlocks::Recompute(std::vector<Reads>& reads) {
  for (int i = 0; i + 1 < graph_.layer_count(); ++i) {
    const GraphLayer& layer = graph_.layers()[i];
    Reads& output = reads[i + 1];
    const auto kept = [&](int input) {
      return again_[input] == kNoBlock && reads[input].last_backward >= output.first_backward;
    };
    if (!layer.use.repeatable || output.first_backward == kNever) continue;
    if (!std::all_of(layer.inputs.begin(), layer.inputs.end(), kept)) continue;
    again_[i + 1] = Add(layer.out, output.first_backward, output.last_backward);
    repeats_[layer_at(output.first_backward)].push_back(i);
    output.last_backward = kNever;
  }
}

void StepBlocks::AddValues(absl::Span<const Reads> reads) {
  values_[0] = Add(graph_.elements(0), 0, reads[0].last());
  for (int i = 0; i < graph_.layer_count(); ++i) {
    const GraphLayer& layer = graph_.layers()[i];
    const int source = layer.inputs[0], last = reads[i + 1].last();
    // The first input's value must not be needed once the output is written, nor may another operand be in
    // the same block.
    const bool in_place = layer.use.overwrites_input && graph_.elements(source) == layer.out &&
                          lifetimes_[values_[source]].last <= forward(i) &&
                          std::none_of(layer.inputs.begin() + 1, layer.inputs.end(),
                                       [&](int other) { return values_[other] == values_[source]; });
    if (in_place) {
      values_[i + 1] = values_[source];
      lifetimes_[values_[source]].last = last;
    } else {
      values_[i + 1] = Add(layer.out, forward(i), last);
    }
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
          if (layer.use.overwrites_gradient && graph_.elements(input) == layer.out) {
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
  lifetimes_[gradients_[input]].last = backward(input - 1);
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
    if (blocks.size() > kManyBlocks) break;  // The time of a try grows with the square of their number.
  }
  return search.best();
}

int64_t PeakElements(absl::Span<const Lifetime> blocks) {
  std::vector<std::pair<int, int64_t>> changes;  // At a time, what begins or, one after its last, ends.
  for (const Lifetime& block : blocks) {
    changes.emplace_back(block.first, AlignUp(block.elements));
    changes.emplace_back(block.last + 1, -AlignUp(block.elements));
  }
  std::sort(changes.begin(), changes.end());  // At equal times the ends, which are negative, come first.
  int64_t peak = 0, sum = 0;
  for (const auto& [time, elements] : changes) peak = std::max(peak, sum += elements);
  return peak;
}

StepMemory PlanStepMemory(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes) {
  const StepBlocks blocks(graph, rows, trains, recomputes);
  return blocks.Place(PlaceBlocks(blocks.lifetimes()));
}

std::vector<Lifetime> StepLifetimes(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes) {
  return StepBlocks(graph, rows, trains, recomputes).lifetimes();
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
