// Flat arenas: all trainable variables of a model lie in one contiguous float32 buffer, their gradients in a
// second buffer, and each optimizer slot in a buffer of its own. A Variable is a name, a shape and a range.
// An all-reduce bucket and a parameter-server shard are ranges, too. A message is sent directly from a slice
// of a buffer.
//
// Positions and counts are in elements (float32), never bytes, unless a name says bytes.
#ifndef TETHYS_RUNTIME_TENSOR_VARIABLE_H_
#define TETHYS_RUNTIME_TENSOR_VARIABLE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace tethys {

// Variables and shards start at multiples of this many elements: 64 bytes, a cache line.
constexpr int64_t kAlignment = 16;
constexpr int64_t AlignUp(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

using Shape = std::vector<int64_t>;
// The product of the axes; 1 for a scalar. InvalidArgument: a negative axis, or a product beyond 2^62.
absl::StatusOr<int64_t> ElementCount(const Shape& shape);
std::string ShapeText(const Shape& shape);  // For texts: "[784, 128]".

// Elements [begin, begin + count) of an arena.
struct Range {
  int64_t begin = 0;
  int64_t count = 0;
  constexpr int64_t end() const { return begin + count; }
  bool operator==(const Range&) const = default;
};
inline constexpr Range kWholeArena = {0, INT64_MAX};
// Sorts disjoint ranges in ascending order, and joins ranges that have only padding between them.
std::vector<Range> JoinedRanges(absl::Span<const Range> ranges);
// The elements in both ranges; count 0 if the ranges do not overlap.
constexpr Range Intersection(const Range& a, const Range& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max<int64_t>(0, std::min(a.end(), b.end()) - begin)};
}

// kHeNormal: normally distributed with the deviation sqrt(2 / fan_in), after He et al. kHeNormalFanOut: with
// the deviation sqrt(2 / fan_out). kBilinear: bilinear interpolation from channel i to channel i, for filters
// of the layout kBilinearLayout.
enum class InitialValue { kZeros, kOnes, kGlorotUniform, kHeNormal, kHeNormalFanOut, kBilinear };
inline constexpr char kBilinearLayout[] = "in,height,width,out";

struct Variable {
  std::string name;
  Shape shape;
  std::string layout;  // Names of the axes: "in,out".
  Range range;         // The variable's elements, without padding.
  InitialValue initial_value = InitialValue::kZeros;
  int64_t fan_in = 0;
  int64_t fan_out = 0;
  // False: training never changes the values, so the variable has no gradient, and no server holds it.
  bool trainable = true;
};

// The variables of a model in the order of the arena. Once built, the set is immutable and thread-safe.
//
// Invariants: ranges are disjoint and ascending, and start at multiples of kAlignment; the padding between
// them is zero, stays zero, and is not counted when variables are cut into shards.
class VariableSet {
 public:
  // Appends a variable at the end of the arena. InvalidArgument: an empty or repeated name, or a bad shape.
  absl::Status Add(std::string name, Shape shape, std::string layout, InitialValue initial_value,
                   int64_t fan_in, int64_t fan_out, bool trainable = true);

  absl::Span<const Variable> variables() const { return variables_; }
  // Size of an arena, including padding.
  int64_t arena_size() const { return arena_size_; }
  // Number of elements, without padding.
  int64_t element_count() const;
  // The ranges of variables that are not trainable, in the order of the arena.
  std::vector<Range> frozen() const;
  // Null if no variable has that name.
  const Variable* Find(absl::string_view name) const;
  // A hash of names, shapes, dtype and layouts, in order. In processes with equal signatures, a range means
  // the same elements.
  uint64_t signature() const;

  // Writes the initial values of elements [range.begin, range.end()) of the arena to out[0..range.count);
  // padding is 0. A value depends only on (seed, variable name, position in the variable), so every process
  // and every partition of the arena gets the same values.
  void FillInitialValues(uint64_t seed, Range range, float* out) const;

 private:
  std::vector<Variable> variables_;
  int64_t arena_size_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TENSOR_VARIABLE_H_
