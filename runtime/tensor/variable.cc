#include "runtime/tensor/variable.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

// The weight of position i in a window of `size` that enlarges images by bilinear interpolation: 1 at the
// window's centre, falling linearly to 0 just beyond its ends (Long et al. 2015).
float BilinearWeight(int64_t size, int64_t i) {
  const int64_t factor = (size + 1) / 2;
  const double centre = size % 2 == 1 ? static_cast<double>(factor - 1) : static_cast<double>(factor) - 0.5;
  return static_cast<float>(1 - std::abs(static_cast<double>(i) - centre) / static_cast<double>(factor));
}

// Sets out[i - range.begin] for every element i of `range`. Random block b gives the elements [b * kValues,
// (b + 1) * kValues), so that a range can be drawn without the elements before it. draw(words, values) turns
// the words of a block into its elements.
template <int kValues, typename Draw>
void FillFromBlocks(const RandomStream& stream, Range range, float* out, const Draw& draw) {
  for (int64_t block = range.begin / kValues; block * kValues < range.end(); ++block) {
    float values[kValues];
    draw(stream.Block(block), values);
    const int64_t first = std::max(range.begin, block * kValues);
    const int64_t last = std::min(range.end(), (block + 1) * kValues);
    std::copy(values + first % kValues, values + first % kValues + (last - first), out + first - range.begin);
  }
}

void FillGlorotUniform(const Variable& variable, const RandomStream& stream, Range range, float* out) {
  const float limit = std::sqrt(6.0f / static_cast<float>(variable.fan_in + variable.fan_out));
  FillFromBlocks<4>(stream, range, out, [limit](const auto& words, float* values) {
    for (int i = 0; i < 4; ++i) values[i] = limit * (2.0f * ToUnitFloat(words[i]) - 1.0f);
  });
}

// Draws normal values by the method of Box and Muller (1958).
void FillHeNormal(int64_t fan, const RandomStream& stream, Range range, float* out) {
  const float deviation = std::sqrt(2.0f / static_cast<float>(fan));
  FillFromBlocks<2>(stream, range, out, [deviation](const auto& words, float* values) {
    const float radius = std::sqrt(-2.0f * std::log(ToUnitFloat(words[0])));
    const float angle = 6.2831853f * ToUnitFloat(words[1]);
    values[0] = deviation * radius * std::cos(angle);
    values[1] = deviation * radius * std::sin(angle);
  });
}

void FillBilinear(const Shape& shape, Range range, float* out) {
  const int64_t height = shape[1], width = shape[2], channels = shape[3];
  for (int64_t i = range.begin; i < range.end(); ++i) {
    const int64_t pixel = i / channels;
    if (pixel / (height * width) != i % channels) continue;
    out[i - range.begin] =
        BilinearWeight(height, pixel / width % height) * BilinearWeight(width, pixel % width);
  }
}

// Writes the initial values of the elements `range` of a variable to out[0..range.count), which must be zero.
// Elements are counted from the variable's first element.
void Fill(const Variable& variable, const RandomStream& stream, Range range, float* out) {
  switch (variable.initial_value) {
    case InitialValue::kZeros:
      return;
    case InitialValue::kOnes:
      std::fill_n(out, range.count, 1.0f);
      return;
    case InitialValue::kGlorotUniform:
      return FillGlorotUniform(variable, stream, range, out);
    case InitialValue::kHeNormal:
      return FillHeNormal(variable.fan_in, stream, range, out);
    case InitialValue::kHeNormalFanOut:
      return FillHeNormal(variable.fan_out, stream, range, out);
    case InitialValue::kBilinear:
      return FillBilinear(variable.shape, range, out);
  }
}

}  // namespace

absl::StatusOr<int64_t> ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t axis : shape) {
    if (axis < 0 || (axis > 0 && count > (int64_t{1} << 62) / axis)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ShapeText(shape), " has a negative axis or too many elements"));
    }
    count *= axis;
  }
  return count;
}

std::string ShapeText(const Shape& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::vector<Range> JoinedRanges(absl::Span<const Range> ranges) {
  std::vector<Range> sorted(ranges.begin(), ranges.end());
  std::sort(sorted.begin(), sorted.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& range : sorted) {
    if (!joined.empty() && AlignUp(joined.back().end()) >= range.begin) {
      joined.back().count = range.end() - joined.back().begin;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

absl::Status VariableSet::Add(std::string name, Shape shape, std::string layout, InitialValue initial_value,
                              int64_t fan_in, int64_t fan_out, bool trainable) {
  if (name.empty()) return absl::InvalidArgumentError("a variable needs a name");
  if (Find(name) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("two variables are called '", name, "'"));
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t count, ElementCount(shape));
  if (count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", name, "' of shape ", ShapeText(shape), " has no elements"));
  }
  variables_.push_back({.name = std::move(name),
                        .shape = std::move(shape),
                        .layout = std::move(layout),
                        .range = {arena_size_, count},
                        .initial_value = initial_value,
                        .fan_in = fan_in,
                        .fan_out = fan_out,
                        .trainable = trainable});
  arena_size_ += AlignUp(count);
  return absl::OkStatus();
}

int64_t VariableSet::element_count() const {
  int64_t count = 0;
  for (const Variable& variable : variables_) count += variable.range.count;
  return count;
}

std::vector<Range> VariableSet::frozen() const {
  std::vector<Range> ranges;
  for (const Variable& variable : variables_) {
    if (!variable.trainable) ranges.push_back(variable.range);
  }
  return ranges;
}

const Variable* VariableSet::Find(absl::string_view name) const {
  const auto it = std::find_if(variables_.begin(), variables_.end(),
                               [name](const Variable& variable) { return variable.name == name; });
  return it == variables_.end() ? nullptr : &*it;
}

uint64_t VariableSet::signature() const {
  uint64_t hash = kFnvStart;
  for (const Variable& variable : variables_) {
    const std::string text =
        absl::StrCat(variable.name, "|", ShapeText(variable.shape), "|f32|", variable.layout, "\n");
    hash = Fnv1a(text.data(), text.size(), hash);
  }
  return hash;
}

void VariableSet::FillInitialValues(uint64_t seed, Range range, float* out) const {
  std::fill(out, out + range.count, 0.0f);
  for (const Variable& variable : variables_) {
    const int64_t first = std::max(range.begin, variable.range.begin);
    const int64_t last = std::min(range.end(), variable.range.end());
    if (first >= last) continue;
    const RandomStream stream(seed, RandomPurpose::kInitialValue,
                              Fnv1a(variable.name.data(), variable.name.size()));
    Fill(variable, stream, {first - variable.range.begin, last - first}, out + first - range.begin);
  }
}

}  // namespace tethys
