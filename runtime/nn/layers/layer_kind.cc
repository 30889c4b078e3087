#include "runtime/nn/layers/layer_kind.h"

#include "runtime/nn/layers/kinds.h"

namespace tethys {
namespace {

// The most elements of all variables of a model, which limits its memory.
constexpr int64_t kMaxParameters = int64_t{1} << 33;
// The most elements of moving statistics of a model: a worker sends its statistics in one message, and gRPC
// takes messages of at most 4 MiB.
constexpr int64_t kMaxStatistics = int64_t{1} << 19;

}  // namespace

const LayerKind* FindLayerKind(proto::Layer::KindCase kind) {
  switch (kind) {
#define TETHYS_RETURN_KIND(Name) \
  case proto::Layer::k##Name:    \
    return &k##Name##Kind;
    TETHYS_LAYER_KINDS(TETHYS_RETURN_KIND)
#undef TETHYS_RETURN_KIND
    case proto::Layer::KIND_NOT_SET:
      break;
  }
  return nullptr;
}

absl::StatusOr<ImageShape> LayerScope::InputImage(absl::string_view kind) const {
  if (input().size() == 2) return ImageShape{input()[0], input()[1], 1};
  if (input().size() == 3) return ImageShape{input()[0], input()[1], input()[2]};
  return absl::InvalidArgumentError(
      absl::StrCat("its input has shape ", ShapeText(input()), ", but ", kind,
                   " needs images, [height, width] or [height, width, channels]: place this layer before any "
                   "flatten or dense layer"));
}

absl::Status LayerScope::CheckSeveralInputs(absl::string_view kind) const {
  if (inputs_.size() > 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("has one input, but ", kind, " needs two or more: name each of them by input: \"...\""));
}

absl::Status LayerScope::AddVariable(absl::string_view name, const Shape& shape, const std::string& layout,
                                     InitialValue initial_value, int64_t fan_in, int64_t fan_out) {
  const absl::StatusOr<int64_t> elements = ElementCount(shape);
  if (!elements.ok() || *elements > kMaxParameters - variables_.arena_size()) {
    return absl::InvalidArgumentError(absl::StrCat("with ", name, " ", ShapeText(shape),
                                                   " the model exceeds ", kMaxParameters, " parameters"));
  }
  const std::string full_name = absl::StrCat(name_, "/", name);
  TETHYS_RETURN_IF_ERROR(
      variables_.Add(full_name, shape, layout, initial_value, fan_in, fan_out, trainable_));
  ranges_.push_back(variables_.Find(full_name)->range);
  return absl::OkStatus();
}

absl::Status LayerScope::AddStatistic(absl::string_view name, int64_t channels, InitialValue initial_value) {
  if (channels > kMaxStatistics - statistics_.arena_size()) {
    return absl::InvalidArgumentError(absl::StrCat("with ", name, " [", channels, "] the model exceeds ",
                                                   kMaxStatistics, " elements of moving statistics"));
  }
  const std::string full_name = absl::StrCat(name_, "/", name);
  TETHYS_RETURN_IF_ERROR(statistics_.Add(full_name, {channels}, "channels", initial_value, 0, 0));
  statistic_ranges_.push_back(statistics_.Find(full_name)->range);
  return absl::OkStatus();
}

}  // namespace tethys
