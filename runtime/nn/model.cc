#include "runtime/nn/model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/nn/layers/activation.h"
#include "runtime/nn/layers/layer_kind.h"
#include "runtime/nn/layers/model_inputs.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

// Limits the elements of a value in one row, so that no sum over layers overflows. Plans and forecasts limit
// the rows.
constexpr int64_t kMostElements = int64_t{1} << 40;

absl::StatusOr<int64_t> CountElements(const Shape& shape) {
  const absl::StatusOr<int64_t> elements = ElementCount(shape);
  if (elements.ok() && *elements <= kMostElements) return elements;
  return absl::InvalidArgumentError(
      absl::StrCat("its output ", ShapeText(shape), " has more than ", kMostElements, " elements"));
}

// Builds a model by adding layers one after the other.
class Builder {
 public:
  Builder(const proto::Model& config, const ModelInputs& inputs, const Shape& sample_shape)
      : config_(config), inputs_(inputs), batch_{.value = 0, .shape = sample_shape} {}

  absl::Status Add(int position);

  VariableSet& variables() { return variables_; }
  VariableSet& statistics() { return statistics_; }
  std::vector<Model::Layer>& layers() { return layers_; }
  std::vector<GraphLayer>& graph_layers() { return graph_layers_; }
  const Shape& output() const { return outputs_.empty() ? batch_.shape : outputs_.back().shape; }

 private:
  // The output of a layer of the description: a value of the graph, and the shape of that value for the next
  // layers. (A flatten layer has the value of its input.)
  struct Output {
    int value = 0;
    Shape shape = {};
  };

  // Adds an operation, and returns the number of the value that is its output.
  int AddOperation(Model::Layer layer, std::vector<int> inputs, int64_t elements);

  const proto::Model& config_;
  const ModelInputs& inputs_;
  const Output batch_;
  VariableSet variables_;
  VariableSet statistics_;
  std::vector<Model::Layer> layers_;
  std::vector<GraphLayer> graph_layers_;
  std::vector<Output> outputs_;  // One output for each layer of the description.
};

absl::Status Builder::Add(int position) {
  const proto::Layer& layer = config_.layer(position);
  std::vector<int> values;
  std::vector<Shape> shapes;
  for (const int input : inputs_.layers[position]) {
    const Output& output = input == ModelInputs::kBatch ? batch_ : outputs_[input];
    values.push_back(output.value);
    shapes.push_back(output.shape);
  }
  LayerScope scope(layer.name(), IsTrainable(layer), shapes, variables_, statistics_);
  TETHYS_ASSIGN_OR_RETURN(DefinedLayer defined, FindLayerKind(layer)->define(layer, scope));
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, CountElements(defined.output));
  outputs_.push_back({.value = values[0], .shape = defined.output});
  if (defined.operation == nullptr) return absl::OkStatus();
  outputs_.back().value = AddOperation({.config = layer,
                                        .inputs = std::move(shapes),
                                        .output = defined.output,
                                        .variables = scope.ranges(),
                                        .statistics = scope.statistic_ranges(),
                                        .operation = std::move(defined.operation)},
                                       std::move(values), elements);
  if (defined.activation == proto::ACTIVATION_NONE) return absl::OkStatus();
  Model::Layer activation{.inputs = {defined.output}, .output = defined.output};
  activation.config.set_name(absl::StrCat(layer.name(), "/activation"));
  activation.config.mutable_activate()->set_activation(defined.activation);
  TETHYS_ASSIGN_OR_RETURN(activation.operation, MakeActivation(defined.output, defined.activation));
  outputs_.back().value = AddOperation(std::move(activation), {outputs_.back().value}, elements);
  return absl::OkStatus();
}

int Builder::AddOperation(Model::Layer layer, std::vector<int> inputs, int64_t elements) {
  graph_layers_.push_back({.inputs = std::move(inputs),
                           .out = elements,
                           .trains = layer.trains(),
                           .use = layer.operation->operand_use()});
  layers_.push_back(std::move(layer));
  return static_cast<int>(layers_.size());
}

// The place of a layer in the description, for messages: "model.layer[1] 'dense_1'"; without a name just the
// position.
std::string LayerPlace(const proto::Model& model, int position) {
  const std::string& name = model.layer(position).name();
  return absl::StrCat("model.layer[", position, "]", name.empty() ? "" : absl::StrCat(" '", name, "'"));
}

}  // namespace

absl::StatusOr<Model> Model::Create(const proto::Model& config, const Shape& sample_shape, int64_t classes) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t sample_elements, ElementCount(sample_shape));
  if (sample_elements < 1 || sample_elements > kMostElements) {
    return absl::InvalidArgumentError(absl::StrCat("a sample of shape ", ShapeText(sample_shape), " has ",
                                                   sample_elements, " elements; it needs 1 to ",
                                                   kMostElements));
  }
  const proto::Model resolved = ExpandModel(config, classes);
  const ModelInputs inputs = FindInputs(resolved);
  if (inputs.wrong_layer >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(LayerPlace(resolved, inputs.wrong_layer), ": ", inputs.problem));
  }
  Builder builder(resolved, inputs, sample_shape);
  for (int i = 0; i < resolved.layer_size(); ++i) {
    const absl::Status added = builder.Add(i);
    if (!added.ok()) return Annotate(added, LayerPlace(resolved, i));
  }
  const auto trains = [](const Model::Layer& layer) { return layer.trains(); };
  if (std::none_of(builder.layers().begin(), builder.layers().end(), trains)) {
    return absl::InvalidArgumentError(
        "model: has no layer with variables that train, such as a dense layer, so there is nothing to train");
  }
  Model model;
  absl::StatusOr<std::shared_ptr<const Loss>> loss = MakeLoss(config.loss(), builder.output(), classes);
  if (!loss.ok()) return Annotate(loss.status(), LayerPlace(resolved, resolved.layer_size() - 1));
  model.loss_ = *std::move(loss);
  model.output_shape_ = builder.output();
  model.sample_shape_ = sample_shape;
  model.sample_elements_ = sample_elements;
  model.variables_ = std::move(builder.variables());
  model.statistics_ = std::move(builder.statistics());
  model.layers_ = std::move(builder.layers());
  model.graph_ = std::make_shared<LayerGraph>(sample_elements, std::move(builder.graph_layers()));
  TETHYS_RETURN_IF_ERROR(model.CheckFrozen());
  return model;
}

absl::Status Model::CheckFrozen() const {
  for (int i = 0; i < graph_->layer_count(); ++i) {
    const Layer& layer = layers_[i];
    if (layer.statistics.empty() || layer.trains() || !graph_->runs_backward(i)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", layer.name(), "' (", layer.operation->Describe(),
                     ") is not trainable, but a layer before it is: gradients do not pass through moving "
                     "statistics, so freeze all layers before this layer, too, or let this layer train"));
  }
  return absl::OkStatus();
}

absl::Status Model::CheckLabels(const LabelFormat& labels) const {
  const LabelFormat& expected = loss_->labels();
  if (labels == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the model's outputs ", ShapeText(output_shape_), " are compared with ", LabelText(expected),
      ", but the data have ", LabelText(labels), ": give other labels, or another last layer or model.loss"));
}

absl::Status Model::CheckBatch(int64_t samples) const {
  for (const Layer& layer : layers_) {
    const int64_t least = layer.operation->least_samples();
    if (samples >= least || !layer.trains()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "layer '", layer.name(), "' (", layer.operation->Describe(), ") would normalise ", samples,
        " value of each channel, which gives 0: this layer needs batches of at least ", least, " samples"));
  }
  return absl::OkStatus();
}

std::vector<Range> Model::ready_order() const {
  std::vector<Range> order;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (!layer->trains()) continue;
    const int64_t begin = layer->variables.front().begin;
    order.push_back({begin, layer->variables.back().end() - begin});
  }
  return order;
}

}  // namespace tethys
