#include "runtime/nn/memory_plan.h"

#include <algorithm>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/random.h"
#include "runtime/nn/recomputation.h"
#include "runtime/tensor/variable.h"

namespace tethys {
namespace {

constexpr uint64_t kGraphs = 300;

// A graph like the graphs of networks: every layer reads one to three earlier values, mostly recent ones, and
// every value is read.
LayerGraph RandomGraph(uint64_t key) {
  RandomStream random(11, RandomPurpose::kTest, key);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random.NextBelow(limit)); };
  const int count = static_cast<int>(1 + below(40));
  std::vector<GraphLayer> layers(count);
  std::vector<int64_t> elements = {512};
  std::vector<int> unread = {0};
  for (int i = 0; i < count; ++i) {
    GraphLayer& layer = layers[i];
    const bool last = i + 1 == count;
    const size_t inputs = last ? std::max<size_t>(1, unread.size()) : 1 + below(3);
    while (layer.inputs.size() < inputs) {
      const bool fresh = !unread.empty() && (last || below(2) == 0);
      layer.inputs.push_back(fresh ? unread.back() : static_cast<int>(i - below(std::min(i + 1, 6))));
      unread.erase(std::remove(unread.begin(), unread.end(), layer.inputs.back()), unread.end());
    }
    layer.use = {.backward_reads_inputs = below(2) == 0,
                 .backward_reads_output = below(3) == 0,
                 .repeatable = (static_cast<int>(key) + i) % 2 == 0,
                 .overwrites_input = below(3) == 0,
                 .overwrites_gradient = below(3) == 0 && layer.inputs.size() == 1,
                 .passes_gradient = below(4) == 0};
    layer.out = below(3) == 0 ? elements[layer.inputs[0]] : below(2) == 0 ? 1 + below(1000) : 512;
    for (const int input : layer.inputs) {  // Like the layer add: all operands have one shape.
      if (elements[input] != elements[layer.inputs[0]]) layer.use.passes_gradient = false;
    }
    if (layer.use.passes_gradient) layer.out = elements[layer.inputs[0]];
    layer.trains = below(3) != 0;
    elements.push_back(layer.out);
    unread.push_back(i + 1);
  }
  return LayerGraph(elements[0], std::move(layers));
}

// Records, for each element of memory, which value or gradient was written to the element last.
class Memory {
 public:
  explicit Memory(int64_t elements) : owners_(elements, -1) {}
  void Write(int64_t begin, int64_t elements, int owner) {
    const bool inside = begin >= 0 && begin + elements <= static_cast<int64_t>(owners_.size());
    ASSERT_TRUE(inside) << begin;
    std::fill_n(owners_.begin() + begin, elements, owner);
  }
  void ExpectHolds(int64_t begin, int64_t elements, int owner) const {
    ASSERT_GE(begin, 0);
    const auto first = owners_.begin() + begin;
    const auto other = std::find_if(first, first + elements, [&](int found) { return found != owner; });
    ASSERT_EQ(other, first + elements) << owner << " was overwritten by " << *other << " before its last use";
  }

 private:
  std::vector<int> owners_;
};

// Runs a step in which each layer marks what it writes, and checks at each read that the mark is still there.
void CheckStep(const LayerGraph& graph, int64_t rows, bool trains, bool recomputes) {
  const StepMemory memory = PlanStepMemory(graph, rows, trains, recomputes);
  Memory contents(memory.elements);
  const int layers = graph.layer_count();
  const auto size = [&](int value) { return rows * graph.elements(value); };
  // The mark of each value's gradient. Each input of a sum may share the mark and memory of the sum's
  // gradient until another layer's contribution is added to the gradient of that input.
  std::vector<int> gradient(layers + 1);
  int next_mark = 10000;
  const auto expect_value = [&](int value) {
    contents.ExpectHolds(memory.values[value], size(value), value);
  };
  const auto again = [&](int value) { return 2000 + value; };
  const auto expect_in_backward = [&](int value) {
    if (memory.again[value] == StepMemory::kAbsent) return expect_value(value);
    contents.ExpectHolds(memory.again[value], size(value), again(value));
  };
  const auto write_gradient = [&](int value) {
    gradient[value] = next_mark++;
    contents.Write(memory.gradients[value], size(value), gradient[value]);
  };
  const auto in_place = [&](int layer, int input) {
    return graph.layers()[layer].use.overwrites_input && input == graph.layers()[layer].inputs[0];
  };
  contents.Write(memory.values[0], size(0), 0);
  for (int i = 0; i < layers; ++i) {
    for (const int input : graph.layers()[i].inputs) expect_value(input);
    contents.Write(memory.values[i + 1], size(i + 1), i + 1);
    // A layer may still read its operands after it has written a part of its output.
    for (const int input : graph.layers()[i].inputs) {
      if (!in_place(i, input)) expect_value(input);
    }
  }
  expect_value(layers);
  if (!trains) return;
  write_gradient(layers);
  for (int i = layers; i-- > 0;) {
    if (!graph.runs_backward(i)) continue;
    const GraphLayer& layer = graph.layers()[i];
    for (const int repeated : memory.repeats[i]) {
      for (const int input : graph.layers()[repeated].inputs) expect_in_backward(input);
      contents.Write(memory.again[repeated + 1], size(repeated + 1), again(repeated + 1));
      for (const int input : graph.layers()[repeated].inputs) {
        if (!in_place(repeated, input)) expect_in_backward(input);
      }
    }
    if (layer.use.backward_reads_output) expect_in_backward(i + 1);
    for (const int input : layer.inputs) {
      if (layer.use.backward_reads_inputs) expect_in_backward(input);
    }
    contents.ExpectHolds(memory.gradients[i + 1], size(i + 1), gradient[i + 1]);
    for (size_t j = 0; j < layer.inputs.size(); ++j) {
      const int input = layer.inputs[j];
      const GradientPart part = graph.gradient_parts(i)[j];
      EXPECT_EQ(part == GradientPart::kNone, !graph.needs_gradient(input));
      if (part == GradientPart::kNone) continue;
      if (part == GradientPart::kAdded) {
        contents.ExpectHolds(memory.gradients[input], size(input), gradient[input]);
        if (memory.parts[i][j] != StepMemory::kAbsent)
          contents.Write(memory.parts[i][j], size(input), 5000 + static_cast<int>(j));
      } else {
        EXPECT_EQ(part == GradientPart::kShared,
                  layer.use.passes_gradient && memory.gradients[input] == memory.gradients[i + 1]);
        if (part == GradientPart::kShared) {
          gradient[input] = gradient[i + 1];
        } else {
          write_gradient(input);
        }
      }
    }
    // When the layer writes its contribution to one input's gradient, neither its contributions to other
    // inputs nor the values that the layer reads may change.
    if (layer.use.backward_reads_output) expect_in_backward(i + 1);
    bool output_gradient_given_up = layer.use.overwrites_gradient && !graph.keeps_gradient(i);
    for (size_t j = 0; j < layer.inputs.size(); ++j) {
      const int input = layer.inputs[j];
      if (layer.use.backward_reads_inputs) expect_in_backward(input);
      if (!graph.needs_gradient(input)) continue;
      contents.ExpectHolds(memory.gradients[input], size(input), gradient[input]);
      if (memory.parts[i][j] != StepMemory::kAbsent) {
        contents.ExpectHolds(memory.parts[i][j], size(input), 5000 + static_cast<int>(j));
      }
      if (graph.gradient_parts(i)[j] == GradientPart::kShared) output_gradient_given_up = true;
    }
    if (!output_gradient_given_up) {
      contents.ExpectHolds(memory.gradients[i + 1], size(i + 1), gradient[i + 1]);
    }
    for (size_t j = 0; j < layer.inputs.size(); ++j) {
      if (graph.gradient_parts(i)[j] == GradientPart::kAdded) write_gradient(layer.inputs[j]);
    }
  }
}

TEST(MemoryPlan, NoValueOrGradientIsOverwrittenBeforeItsLastUse) {
  for (uint64_t key = 0; key < kGraphs; ++key) {
    SCOPED_TRACE(key);
    const LayerGraph graph = RandomGraph(key);
    for (const auto& [trains, recomputes] : {std::pair(false, false), {true, false}, {true, true}}) {
      CheckStep(graph, 3, trains, recomputes);
      if (HasFailure()) return;
    }
  }
}

// In a residual block, the normalised branch and the value to which the block adds that branch share a
// gradient.
TEST(MemoryPlan, InputsOfASumShareItsGradientWithoutACopy) {
  const GraphLayer product = {.inputs = {0}, .out = 64, .trains = true};
  const GraphLayer norm = {.inputs = {1}, .out = 64, .use = {.overwrites_gradient = true}};
  const GraphLayer sum = {.inputs = {2, 1}, .out = 64, .use = {.passes_gradient = true}};
  const StepMemory memory = PlanStepMemory(LayerGraph(64, {product, norm, sum}), 1, /*trains=*/true);
  EXPECT_EQ(memory.gradients[2], memory.gradients[3]);
  EXPECT_EQ(memory.gradients[1], memory.gradients[3]);
  EXPECT_NE(memory.parts[1][0], memory.gradients[3]) << "the branch's part is added";
}

// The layer `other` comes after the normalisation and reads value 1, too. Backward adds the contribution of
// `other` to the gradient of value 1 before it runs the normalisation, which needs the sum's gradient without
// this contribution.
TEST(MemoryPlan, InputsOfASumHaveSeparateGradientsIfALaterLayerReadsTheEarlierInput) {
  const GraphLayer product = {.inputs = {0}, .out = 64, .trains = true};
  const GraphLayer norm = {.inputs = {1}, .out = 64, .use = {.overwrites_gradient = true}};
  const GraphLayer other = {.inputs = {1}, .out = 64, .trains = true};
  const GraphLayer sum = {.inputs = {2, 1}, .out = 64, .use = {.passes_gradient = true}};
  const GraphLayer last = {.inputs = {4, 3}, .out = 64, .trains = true};
  const LayerGraph graph(64, {product, norm, other, sum, last});
  const StepMemory memory = PlanStepMemory(graph, 1, /*trains=*/true);
  EXPECT_NE(memory.gradients[1], memory.gradients[2]);
  CheckStep(graph, 1, /*trains=*/true, /*recomputes=*/false);
}

TEST(MemoryPlan, PlannedMemoryExceedsThePeakOfLiveValuesByAtMostFifteenPercent) {
  for (uint64_t key = 0; key < kGraphs; ++key) {
    const LayerGraph graph = RandomGraph(key);
    for (const auto& [trains, recomputes] : {std::pair(false, false), {true, false}, {true, true}}) {
      const double peak = static_cast<double>(PeakElements(StepLifetimes(graph, 8, trains, recomputes)));
      const double planned = static_cast<double>(PlanStepMemory(graph, 8, trains, recomputes).elements);
      EXPECT_GE(planned, peak) << key;
      EXPECT_LE(planned, 1.15 * peak) << key;
    }
  }
}

TEST(MemoryPlan, RecomputationNeverRaisesThePeak) {
  int lower = 0;
  for (uint64_t key = 0; key < kGraphs; ++key) {
    const LayerGraph graph = RandomGraph(key);
    const int64_t kept = PeakElements(StepLifetimes(graph, 8, /*trains=*/true));
    const int64_t peak = PeakElements(StepLifetimes(graph, 8, /*trains=*/true, /*recomputes=*/true));
    EXPECT_LE(peak, kept) << key;
    lower += peak < kept ? 1 : 0;
  }
  EXPECT_GT(lower, 10);
}

TEST(MemoryPlan, BlocksStartAtCacheLines) {
  const Placement placement = PlaceBlocks({{{.elements = 3, .first = 0, .last = 2},
                                            {.elements = 5, .first = 1, .last = 1},
                                            {.elements = 7, .first = 2, .last = 3}}});
  for (const int64_t begin : placement.begin) EXPECT_EQ(begin % kAlignment, 0);
  EXPECT_EQ(placement.elements, 2 * kAlignment) << "two blocks at a time";
}

TEST(MemoryPlan, EvaluationOfAChainOfLayersHoldsTwoValuesAtATime) {
  std::vector<GraphLayer> layers;
  for (int i = 0; i < 50; ++i) layers.push_back({.inputs = {i}, .out = 64, .trains = true});
  EXPECT_EQ(PlanStepMemory(LayerGraph(64, layers), 1, /*trains=*/false).elements, 128);
}

TEST(MemoryPlan, ActivationIsComputedInPlaceUnlessItsInputIsReadLater) {
  GraphLayer product = {.inputs = {0}, .out = 64, .trains = true, .use = {.backward_reads_inputs = true}};
  const GraphLayer activation = {
      .inputs = {1},
      .out = 64,
      .use = {.backward_reads_output = true, .overwrites_input = true, .overwrites_gradient = true}};
  StepMemory memory = PlanStepMemory(LayerGraph(64, {product, activation}), 1, /*trains=*/true);
  EXPECT_EQ(memory.values[1], memory.values[2]);
  EXPECT_EQ(memory.gradients[1], memory.gradients[2]);
  const GraphLayer sum = {.inputs = {2, 1}, .out = 64, .use = {.passes_gradient = true}};
  memory = PlanStepMemory(LayerGraph(64, {product, activation, sum}), 1, /*trains=*/true);
  EXPECT_NE(memory.values[1], memory.values[2]);
}

// The graph consists of convolutions, each followed by a normalisation.
TEST(MemoryPlan, RecomputationKeepsHalfOfTheValuesOfNormalisedConvolutions) {
  std::vector<GraphLayer> layers;
  for (int i = 0; i < 20; ++i) {
    const bool convolution = i % 2 == 0;
    layers.push_back({.inputs = {i},
                      .out = 64,
                      .trains = true,
                      .use = {.backward_reads_inputs = true, .repeatable = !convolution}});
  }
  const LayerGraph graph(64, layers);
  const StepMemory kept = PlanStepMemory(graph, 1, /*trains=*/true);
  const StepMemory memory = PlanStepMemory(graph, 1, /*trains=*/true, /*recomputes=*/true);
  EXPECT_EQ(kept.elements, 22 * 64);
  EXPECT_LE(memory.elements, 14 * 64);
  EXPECT_EQ(memory.repeats[4], std::vector<int>{3}) << "before the convolution that reads it";
  EXPECT_EQ(memory.again[5], StepMemory::kAbsent) << "a convolution is not repeated";
}

constexpr OperandUse kConvolution = {.backward_reads_inputs = true};
constexpr OperandUse kNormalisation = {
    .backward_reads_inputs = true, .repeatable = true, .overwrites_input = true, .overwrites_gradient = true};
constexpr OperandUse kActivation = {
    .backward_reads_output = true, .repeatable = true, .overwrites_input = true, .overwrites_gradient = true};
constexpr OperandUse kSum = {.repeatable = true, .overwrites_input = true, .passes_gradient = true};

// Each activation reads the output of a normalisation. Backward does not read that output, so it is not kept.
TEST(MemoryPlan, ActivationIsRecomputedFromTheInputOfItsNormalisation) {
  std::vector<GraphLayer> layers;
  for (int i = 0; i < 30; ++i) {
    layers.push_back({.inputs = {i},
                      .out = 64,
                      .trains = i % 3 != 2,
                      .use = i % 3 == 0   ? kConvolution
                             : i % 3 == 1 ? kNormalisation
                                          : kActivation});
  }
  const LayerGraph graph(64, layers);
  const StepMemory memory = PlanStepMemory(graph, 1, /*trains=*/true, /*recomputes=*/true);
  EXPECT_EQ(memory.repeats[6], (std::vector<int>{4, 5}))
      << "before the convolution that reads the activation";
  EXPECT_EQ(memory.again[5], memory.again[6]) << "the activation works in place again";
  EXPECT_EQ(PlanStepMemory(graph, 1, /*trains=*/true).elements, 22 * 64);
  EXPECT_LE(memory.elements, 15 * 64);
}

// Each block is a convolution, a normalisation, the sum with the output of the block before, and an
// activation. The convolution reads the output of the block before.
TEST(MemoryPlan, ResidualBlockIsRecomputedFromTheRecomputedBlockBeforeIt) {
  std::vector<GraphLayer> layers;
  for (int block = 0; block < 9; ++block) {
    const int input = 4 * block;
    layers.push_back({.inputs = {input}, .out = 64, .trains = true, .use = kConvolution});
    layers.push_back({.inputs = {input + 1}, .out = 64, .trains = true, .use = kNormalisation});
    layers.push_back({.inputs = {input + 2, input}, .out = 64, .use = kSum});
    layers.push_back({.inputs = {input + 3}, .out = 64, .use = kActivation});
  }
  const LayerGraph graph(64, layers);
  const std::vector<BackwardReads> reads = FindBackwardReads(graph);
  const auto repeated = [&](int longest_chain) {
    std::vector<int> blocks;  // For each block, 1 if its output is computed again.
    const std::vector<int> before = FindRecomputations(graph, reads, longest_chain);
    for (int block = 0; block < 9; ++block) blocks.push_back(before[4 * block + 4] != kNoLayer ? 1 : 0);
    return blocks;
  };
  EXPECT_THAT(repeated(0), testing::Each(0));
  EXPECT_THAT(repeated(1), testing::ElementsAre(1, 0, 1, 0, 1, 0, 1, 0, 0))
      << "the last is the model's output";
  EXPECT_THAT(repeated(2), testing::ElementsAre(1, 1, 0, 1, 1, 0, 1, 1, 0));
  // Recomputing the longest possible chain of blocks would need memory for all their outputs at once when
  // backward begins, so the plan recomputes shorter chains.
  const int64_t kept = PlanStepMemory(graph, 1, /*trains=*/true).elements;
  EXPECT_LE(PlanStepMemory(graph, 1, /*trains=*/true, /*recomputes=*/true).elements, kept - 4 * 64);
}

TEST(MemoryPlan, SumAppliesTheReluThatIsItsOnlyReader) {
  const GraphLayer product = {.inputs = {0}, .out = 64, .trains = true};
  const GraphLayer sum = {
      .inputs = {0, 1}, .out = 64, .use = {.passes_gradient = true, .applies_relu = true}};
  const GraphLayer relu = {.inputs = {2},
                           .out = 64,
                           .use = {.backward_reads_output = true, .overwrites_input = true, .is_relu = true}};
  const LayerGraph graph(64, {product, sum, relu});
  EXPECT_TRUE(graph.applies_relu(1));
  EXPECT_TRUE(graph.runs_forward(1));
  EXPECT_FALSE(graph.runs_forward(2));
  const std::vector<int64_t> values = PlanStepMemory(graph, 1, /*trains=*/true).values;
  EXPECT_EQ(values[2], values[3]);
  const GraphLayer reader = {.inputs = {3, 2}, .out = 64};
  const LayerGraph read_twice(64, {product, sum, relu, reader});
  EXPECT_FALSE(read_twice.applies_relu(1));
  EXPECT_TRUE(read_twice.runs_forward(2));
}

TEST(MemoryPlan, FrozenFirstLayersOfAModelHaveNoGradients) {
  const GraphLayer frozen = {.inputs = {0}, .out = 32};
  const GraphLayer trained = {.inputs = {1}, .out = 16, .trains = true};
  const LayerGraph graph(8, {frozen, trained});
  EXPECT_FALSE(graph.runs_backward(0));
  EXPECT_EQ(PlanStepMemory(graph, 1, /*trains=*/true).gradients,
            (std::vector<int64_t>{StepMemory::kAbsent, StepMemory::kAbsent, 0}));
}

}  // namespace
}  // namespace tethys
