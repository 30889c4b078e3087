#include "deploy/model_files/torch_weights.h"

#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "runtime/nn/layers/model_inputs.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

struct NamePair {
  const char* ours;
  const char* torch;
};
constexpr NamePair kNames[] = {
    {"/filters", ".weight"},
    {"/weights", ".weight"},
    {"/bias", ".bias"},
    {"/scale", ".weight"},
    {"/offset", ".bias"},
    {"/moving_mean", ".running_mean"},
    {"/moving_variance", ".running_var"},
};

std::string TorchName(absl::string_view variable) {
  for (const NamePair& pair : kNames) {
    if (absl::ConsumeSuffix(&variable, pair.ours)) return absl::StrCat(variable, pair.torch);
  }
  return std::string(variable);
}

// Finds layers that output a flattened image with its features in another order than PyTorch's. OutputOf
// returns the shape of this image, or nullopt for other layers. `position` is the index of a layer in the
// description.
class FlattenedImages {
 public:
  FlattenedImages(const proto::Model& config, const Model& model)
      : config_(config), inputs_(FindInputs(config)), sample_shape_(model.sample_shape()) {
    for (const Model::Layer& layer : model.layers()) shapes_[layer.name()] = layer.output;
  }

  absl::StatusOr<absl::optional<Shape>> OutputOf(int position) const {
    if (position == ModelInputs::kBatch) return absl::optional<Shape>();
    const proto::Layer& layer = config_.layer(position);
    if (layer.has_flatten()) {
      const Shape in = ShapeOf(InputOf(position));
      if (in.size() == 1) return OutputOf(InputOf(position));
      const bool differs = in.size() == 3 && in[0] * in[1] > 1 && in[2] > 1;
      return differs ? absl::optional<Shape>(in) : absl::nullopt;
    }
    // Dropout and activations treat each feature by itself and have no variables, so the order does not
    // matter to them.
    if (layer.has_dropout() || layer.has_activate()) return OutputOf(InputOf(position));
    if (layer.has_dense() || ShapeOf(position).size() > 1) return absl::optional<Shape>();
    for (const int input : inputs_.layers[position]) {
      TETHYS_ASSIGN_OR_RETURN(const absl::optional<Shape> image, OutputOf(input));
      if (!image.has_value()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "layer '", layer.name(), "' reads the features of a flattened image ", ShapeText(*image),
          ", which PyTorch flattens in another order: only a dense layer can be exported at this place"));
    }
    return absl::optional<Shape>();
  }

  int InputOf(int position) const { return inputs_.layers[position][0]; }

 private:
  Shape ShapeOf(int position) const {
    if (position == ModelInputs::kBatch) return sample_shape_;
    const auto found = shapes_.find(config_.layer(position).name());
    if (found != shapes_.end()) return found->second;
    // The layer is a flatten: model.layers() does not contain it, because it computes nothing.
    const Shape in = ShapeOf(InputOf(position));
    return {std::accumulate(in.begin(), in.end(), int64_t{1}, std::multiplies<>())};
  }

  const proto::Model& config_;
  const ModelInputs inputs_;
  const Shape sample_shape_;
  std::map<std::string, Shape> shapes_;  // The shape of each layer's output, by layer.
};

// Sets the layout of a tensor whose variable and name are set.
void SetLayout(const absl::optional<Shape>& image, TorchTensor& tensor) {
  const Shape& ours = tensor.variable.shape;
  tensor.axes = ours;
  // PyTorch's layout of transposed convolutions is [in, out, height, width].
  if (tensor.variable.layout == "out,height,width,in" || tensor.variable.layout == kBilinearLayout) {
    tensor.order = {0, 3, 1, 2};
  } else if (tensor.variable.layout == "in,out") {
    tensor.order = {1, 0};
    if (image.has_value()) {
      tensor.axes = {(*image)[0], (*image)[1], (*image)[2], ours[1]};
      tensor.order = {3, 2, 0, 1};
    }
    tensor.shape = {ours[1], ours[0]};
    return;
  } else {
    tensor.order.resize(ours.size());
    std::iota(tensor.order.begin(), tensor.order.end(), 0);
  }
  for (const int axis : tensor.order) tensor.shape.push_back(ours[axis]);
}

// Calls `visit` for each element, with its index in PyTorch's layout and its index in ours.
template <typename Visit>
void ForEachElement(const TorchTensor& tensor, const Visit& visit) {
  const size_t rank = tensor.axes.size();
  std::vector<int64_t> strides(rank, 1);  // The strides of our layout.
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * tensor.axes[i];
  std::vector<int64_t> index(rank);  // The index in PyTorch's layout, by axis.
  int64_t ours = 0;
  for (int64_t torch = 0; torch < tensor.variable.range.count; ++torch) {
    visit(torch, ours);
    for (size_t i = rank; i-- > 0;) {
      const int axis = tensor.order[i];
      ours += strides[axis];
      if (++index[i] < tensor.axes[axis]) break;
      ours -= strides[axis] * tensor.axes[axis];
      index[i] = 0;
    }
  }
}

void AddTensors(const std::vector<Range>& ranges, const VariableSet& set, bool statistic,
                const absl::optional<Shape>& image, std::vector<TorchTensor>& tensors) {
  for (const Variable& variable : set.variables()) {
    if (std::find(ranges.begin(), ranges.end(), variable.range) == ranges.end()) continue;
    TorchTensor tensor{.name = TorchName(variable.name), .variable = variable, .statistic = statistic};
    SetLayout(image, tensor);
    tensors.push_back(std::move(tensor));
  }
}

}  // namespace

absl::StatusOr<std::vector<TorchTensor>> TorchTensorsOf(const proto::Model& config, const Model& model) {
  const proto::Model expanded = ExpandModel(config, model.classes());
  const FlattenedImages images(expanded, model);
  std::map<absl::string_view, const Model::Layer*> layers;
  for (const Model::Layer& layer : model.layers()) layers[layer.name()] = &layer;
  std::vector<TorchTensor> tensors;
  for (int i = 0; i < expanded.layer_size(); ++i) {
    const auto layer = layers.find(expanded.layer(i).name());
    if (layer == layers.end() || layer->second->variables.empty()) continue;
    absl::optional<Shape> image;
    if (expanded.layer(i).has_dense()) {
      TETHYS_ASSIGN_OR_RETURN(image, images.OutputOf(images.InputOf(i)));
    } else {
      TETHYS_RETURN_IF_ERROR(images.OutputOf(i).status());
    }
    AddTensors(layer->second->variables, model.variables(), false, image, tensors);
    AddTensors(layer->second->statistics, model.statistics(), true, image, tensors);
  }
  return tensors;
}

void ToTorchLayout(const TorchTensor& tensor, absl::Span<const float> ours, absl::Span<float> torch) {
  ForEachElement(tensor, [&](int64_t to, int64_t from) { torch[to] = ours[from]; });
}

void FromTorchLayout(const TorchTensor& tensor, absl::Span<const float> torch, absl::Span<float> ours) {
  ForEachElement(tensor, [&](int64_t from, int64_t to) { ours[to] = torch[from]; });
}

}  // namespace tethys
