#include "runtime/nn/model.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "runtime/nn/layer_defaults.h"

namespace tethys {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 33;

InitialValue WeightsInitialValue(proto::Initializer initializer) {
  return initializer == proto::HE_NORMAL ? InitialValue::kHeNormal : InitialValue::kGlorotUniform;
}

absl::Status CheckPositive(absl::string_view what, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", value, "; it must be 1 or more"));
}

// Computes a resolved layer's output shape from its input's and adds the variables it needs.
struct LayerBuilder {
  const Shape& input;
  VariableSet& variables;
  Model::Layer layer = {};
  Shape output = {};

  absl::Status AddFlatten();
  absl::Status AddDense(const proto::Dense& dense);
  absl::Status AddConvolution(const proto::Convolution& convolution);
  absl::Status AddMaxPooling(const proto::MaxPooling& pooling);

 private:
  absl::StatusOr<ImageShape> InputImage(absl::string_view kind) const;
  // Adds the layer's weights and bias. `in` and `out` are the sizes of the axes of these names in `shape`.
  // fan_in is the number of elements divided by `out`, fan_out that number divided by `in`.
  absl::Status AddVariables(const std::string& name, const Shape& shape, const std::string& layout,
                            InitialValue initial_value, int64_t in, int64_t out);
};

absl::Status LayerBuilder::AddVariables(const std::string& name, const Shape& shape,
                                        const std::string& layout, InitialValue initial_value, int64_t in,
                                        int64_t out) {
  const absl::StatusOr<int64_t> elements = ElementCount(shape);
  const int64_t room = kMaxParameters - variables.arena_size();
  if (!elements.ok() || *elements > room || out > room - *elements) {
    return absl::InvalidArgumentError(absl::StrCat("with ", name, " ", ShapeText(shape),
                                                   " the model exceeds ", kMaxParameters, " parameters"));
  }
  const std::string weights = absl::StrCat(layer.name, "/", name), bias = absl::StrCat(layer.name, "/bias");
  const int64_t fan_in = *elements / out, fan_out = *elements / in;
  TETHYS_RETURN_IF_ERROR(variables.Add(weights, shape, layout, initial_value, fan_in, fan_out));
  TETHYS_RETURN_IF_ERROR(variables.Add(bias, {out}, "out", InitialValue::kZeros, fan_in, fan_out));
  layer.weights = variables.Find(weights)->range;
  layer.bias = variables.Find(bias)->range;
  return absl::OkStatus();
}

absl::Status LayerBuilder::AddFlatten() {
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(input));
  output = {elements};
  return absl::OkStatus();
}

absl::Status LayerBuilder::AddDense(const proto::Dense& dense) {
  if (input.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("its input has shape ", ShapeText(input),
                     ", but a dense layer needs one axis: put a flatten before it"));
  }
  const int64_t in = input[0], out = dense.units();
  TETHYS_RETURN_IF_ERROR(CheckPositive("units", out));
  layer.shape = DenseShape{.rows = 1, .in = in, .out = out, .relu = dense.activation() == proto::RELU};
  output = {out};
  return AddVariables("weights", {in, out}, "in,out", WeightsInitialValue(dense.initializer()), in, out);
}

absl::StatusOr<ImageShape> LayerBuilder::InputImage(absl::string_view kind) const {
  if (input.size() == 2) return ImageShape{input[0], input[1], 1};
  if (input.size() == 3) return ImageShape{input[0], input[1], input[2]};
  return absl::InvalidArgumentError(
      absl::StrCat("its input has shape ", ShapeText(input), ", but ", kind,
                   " needs images, [height, width] or [height, width, channels]: put it before the flatten"));
}

// Makes one axis of a window, padded by TensorFlow's rule.
absl::StatusOr<Window::Axis> MakeAxis(absl::string_view what, int64_t in, int64_t size, int64_t stride,
                                      proto::Padding padding) {
  TETHYS_RETURN_IF_ERROR(CheckPositive("the window's size", size));
  TETHYS_RETURN_IF_ERROR(CheckPositive("stride", stride));
  Window::Axis axis = {.size = size, .stride = stride};
  if (padding == proto::SAME) {
    const int64_t positions = (in - 1) / stride + 1;
    const int64_t total = std::max<int64_t>(0, (positions - 1) * stride + size - in);
    axis.before = total / 2;
    axis.after = total - axis.before;
  } else if (size > in) {
    return absl::InvalidArgumentError(absl::StrCat("its window of ", size, " is larger than the ", what, " ",
                                                   in, " of its input: use a smaller one, or padding: SAME"));
  }
  return axis;
}

absl::StatusOr<Window> MakeWindow(const ImageShape& in, int64_t size, int64_t stride,
                                  proto::Padding padding) {
  Window window;
  TETHYS_ASSIGN_OR_RETURN(window.height, MakeAxis("height", in.height, size, stride, padding));
  TETHYS_ASSIGN_OR_RETURN(window.width, MakeAxis("width", in.width, size, stride, padding));
  return window;
}

absl::Status LayerBuilder::AddConvolution(const proto::Convolution& convolution) {
  TETHYS_ASSIGN_OR_RETURN(const ImageShape in, InputImage("a convolution"));
  const int64_t out = convolution.filters(), size = convolution.kernel_size();
  TETHYS_RETURN_IF_ERROR(CheckPositive("filters", out));
  TETHYS_ASSIGN_OR_RETURN(const Window window,
                          MakeWindow(in, size, convolution.stride(), convolution.padding()));
  const ConvolutionShape shape = {
      .rows = 1, .in = in, .out = out, .window = window, .relu = convolution.activation() == proto::RELU};
  layer.shape = shape;
  output = {shape.output().height, shape.output().width, out};
  const InitialValue initial_value = WeightsInitialValue(convolution.initializer());
  return AddVariables("filters", {out, size, size, in.channels}, "out,height,width,in", initial_value,
                      in.channels, out);
}

absl::Status LayerBuilder::AddMaxPooling(const proto::MaxPooling& pooling) {
  TETHYS_ASSIGN_OR_RETURN(const ImageShape in, InputImage("max pooling"));
  TETHYS_ASSIGN_OR_RETURN(const Window window,
                          MakeWindow(in, pooling.size(), pooling.stride(), pooling.padding()));
  const MaxPoolingShape shape = {.rows = 1, .in = in, .window = window};
  layer.shape = shape;
  output = {shape.output().height, shape.output().width, in.channels};
  return absl::OkStatus();
}

absl::Status Build(const proto::Layer& layer, LayerBuilder& builder) {
  switch (layer.kind_case()) {
    case proto::Layer::kFlatten:
      return builder.AddFlatten();
    case proto::Layer::kDense:
      return builder.AddDense(layer.dense());
    case proto::Layer::kConvolution:
      return builder.AddConvolution(layer.convolution());
    case proto::Layer::kMaxPooling:
      return builder.AddMaxPooling(layer.max_pooling());
    default:
      return absl::InvalidArgumentError(
          "has no kind; write flatten {}, dense { ... }, convolution { ... } or max_pooling {}");
  }
}

}  // namespace

absl::StatusOr<Model> Model::Create(const proto::Model& config, const Shape& sample_shape, int64_t classes) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t sample_elements, ElementCount(sample_shape));
  if (sample_elements < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sample of shape ", ShapeText(sample_shape), " has no elements to train on"));
  }
  Model model;
  model.sample_shape_ = sample_shape;
  model.sample_elements_ = sample_elements;
  model.classes_ = classes;
  Shape shape = sample_shape;
  std::set<std::string> names;
  for (int i = 0; i < config.layer_size(); ++i) {
    proto::Layer layer = config.layer(i);
    ResolveLayer(i, layer);
    if (layer.name().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.layer[", i, "]: its name is empty; give it one, or leave the field out"));
    }
    const std::string where = absl::StrCat("model.layer[", i, "] '", layer.name(), "'");
    if (!names.insert(layer.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": an earlier layer has this name; give it another"));
    }
    LayerBuilder builder = {.input = shape, .variables = model.variables_, .layer = {.name = layer.name()}};
    const absl::Status status = Build(layer, builder);
    if (!status.ok()) return Annotate(status, where);
    absl::StatusOr<int64_t> in = ElementCount(shape), out = ElementCount(builder.output);
    if (!out.ok()) return Annotate(out.status(), where);
    builder.layer.in = *in, builder.layer.out = *out;
    shape = builder.output;
    if (!layer.has_flatten()) model.layers_.push_back(std::move(builder.layer));
  }
  const auto first = std::find_if(model.layers_.begin(), model.layers_.end(),
                                  [](const Layer& layer) { return layer.has_variables(); });
  if (first == model.layers_.end()) {
    return absl::InvalidArgumentError("model: has no dense layer, so there is nothing to train");
  }
  model.first_layer_with_variables_ = first - model.layers_.begin();
  if (shape != Shape{classes}) {
    return absl::InvalidArgumentError(absl::StrCat("model: the last layer gives shape ", ShapeText(shape),
                                                   ", but data.classes is ", classes,
                                                   ": they must be equal"));
  }
  return model;
}

std::vector<Range> Model::ready_order() const {
  std::vector<Range> order;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (!layer->has_variables()) continue;
    order.push_back({layer->weights.begin, layer->bias.end() - layer->weights.begin});
  }
  return order;
}

}  // namespace tethys
