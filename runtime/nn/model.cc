#include "runtime/nn/model.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "runtime/nn/layers/activation.h"
#include "runtime/nn/layers/layer_defaults.h"
#include "runtime/nn/layers/layer_kind.h"

namespace tethys {
namespace {

// A value of the graph, and its shape where a layer's name stands for it. (A flatten has its input's value.)
struct NamedValue {
  int value = 0;
  Shape shape = {};
  std::string where = {};  // "model.layer[1] 'dense_1'"
  bool read = false;
};

// Adds layers one after the other.
class Builder {
 public:
  Builder(const proto::Model& config, const Shape& sample_shape) : config_(config) {
    values_[kBatchName] = {.shape = sample_shape, .read = true};
  }

  absl::Status Add(int position);
  // Every output but the last must have a reader.
  absl::Status CheckReaders() const;

  VariableSet& variables() { return variables_; }
  std::vector<Model::Layer>& layers() { return layers_; }
  std::vector<GraphLayer>& graph_layers() { return graph_layers_; }
  const Shape& output() const { return values_.at(last_).shape; }

 private:
  // Finds the layer's inputs, by name or by default the layer before, and marks them as read.
  absl::Status FindInputs(const proto::Layer& layer, std::vector<int>& values, std::vector<Shape>& shapes);
  absl::Status UnknownInput(const proto::Layer& layer, const std::string& name) const;
  absl::Status AddKind(const LayerKind& kind, proto::Layer layer, std::string where);

  // Returns the value of the operation's output.
  int AddOperation(Model::Layer layer, std::vector<int> inputs, int64_t elements);

  const proto::Model& config_;
  VariableSet variables_;
  std::vector<Model::Layer> layers_;
  std::vector<GraphLayer> graph_layers_;
  std::map<std::string, NamedValue> values_;
  std::string last_ = kBatchName;  // The name of the layer before.
};

absl::Status Builder::Add(int position) {
  proto::Layer layer = config_.layer(position);
  ResolveLayer(position, layer);
  if (layer.name().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model.layer[", position,
                                                   "]: its name is empty; give it one, or leave the field "
                                                   "out"));
  }
  const std::string where = absl::StrCat("model.layer[", position, "] '", layer.name(), "'");
  if (layer.name() == kBatchName) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": '", kBatchName, "' is the name of the batch; give the layer another"));
  }
  if (values_.count(layer.name()) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": an earlier layer has this name; give it another"));
  }
  const LayerKind* const kind = FindLayerKind(layer);
  if (kind == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": has no kind; write one of ", LayerKindList()));
  }
  return Annotate(AddKind(*kind, std::move(layer), where), where);
}

absl::Status Builder::AddKind(const LayerKind& kind, proto::Layer layer, std::string where) {
  std::vector<int> values;
  std::vector<Shape> shapes;
  TETHYS_RETURN_IF_ERROR(FindInputs(layer, values, shapes));
  if (static_cast<int>(values.size()) > kind.most_inputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", values.size(), " inputs; this kind of layer takes ", kind.most_inputs));
  }
  LayerScope scope(layer.name(), shapes, variables_);
  TETHYS_ASSIGN_OR_RETURN(DefinedLayer defined, kind.define(layer, scope));
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(defined.output));
  last_ = layer.name();
  NamedValue& named = values_[last_];
  named = {.value = values[0], .shape = defined.output, .where = std::move(where)};
  if (defined.operation == nullptr) return absl::OkStatus();
  named.value = AddOperation({.config = layer,
                              .inputs = std::move(shapes),
                              .output = defined.output,
                              .variables = scope.ranges(),
                              .operation = std::move(defined.operation)},
                             std::move(values), elements);
  if (defined.activation == proto::ACTIVATION_NONE) return absl::OkStatus();
  Model::Layer activation{.inputs = {defined.output}, .output = defined.output};
  activation.config.set_name(absl::StrCat(layer.name(), "/activation"));
  activation.config.mutable_activate()->set_activation(defined.activation);
  TETHYS_ASSIGN_OR_RETURN(activation.operation, MakeActivation(defined.output, defined.activation));
  named.value = AddOperation(std::move(activation), {named.value}, elements);
  return absl::OkStatus();
}

int Builder::AddOperation(Model::Layer layer, std::vector<int> inputs, int64_t elements) {
  graph_layers_.push_back({.inputs = std::move(inputs),
                           .out = elements,
                           .has_variables = !layer.variables.empty(),
                           .use = layer.operation->operand_use()});
  layers_.push_back(std::move(layer));
  return static_cast<int>(layers_.size());
}

absl::Status Builder::FindInputs(const proto::Layer& layer, std::vector<int>& values,
                                 std::vector<Shape>& shapes) {
  std::vector<std::string> names(layer.input().begin(), layer.input().end());
  if (names.empty()) names = {last_};
  for (const std::string& name : names) {
    const auto found = values_.find(name);
    if (found == values_.end()) return UnknownInput(layer, name);
    found->second.read = true;
    values.push_back(found->second.value);
    shapes.push_back(found->second.shape);
  }
  return absl::OkStatus();
}

absl::Status Builder::UnknownInput(const proto::Layer& layer, const std::string& name) const {
  if (name == layer.name()) {
    return absl::InvalidArgumentError(absl::StrCat("has itself as its input: a model has no cycles"));
  }
  for (int i = 0; i < config_.layer_size(); ++i) {
    proto::Layer other = config_.layer(i);
    ResolveLayer(i, other);
    if (other.name() != name) continue;
    return absl::InvalidArgumentError(absl::StrCat("its input '", name, "' is model.layer[", i,
                                                   "], a later layer: a layer reads only layers before it, "
                                                   "so that a model has no cycles"));
  }
  return absl::InvalidArgumentError(absl::StrCat("its input '", name,
                                                 "' is no layer: give the name of an earlier layer, or '",
                                                 kBatchName, "' for the batch"));
}

absl::Status Builder::CheckReaders() const {
  for (const auto& [name, value] : values_) {
    if (value.read || name == last_) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(value.where, ": no layer reads its output: name it as an input, or leave it out"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Model> Model::Create(const proto::Model& config, const Shape& sample_shape, int64_t classes) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t sample_elements, ElementCount(sample_shape));
  if (sample_elements < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sample of shape ", ShapeText(sample_shape), " has no elements to train on"));
  }
  Builder builder(config, sample_shape);
  for (int i = 0; i < config.layer_size(); ++i) TETHYS_RETURN_IF_ERROR(builder.Add(i));
  TETHYS_RETURN_IF_ERROR(builder.CheckReaders());
  if (builder.variables().variables().empty()) {
    return absl::InvalidArgumentError(
        "model: has no layer with variables, such as a dense layer, so there is nothing to train");
  }
  if (builder.output() != Shape{classes}) {
    return absl::InvalidArgumentError(absl::StrCat("model: the last layer gives shape ",
                                                   ShapeText(builder.output()), ", but data.classes is ",
                                                   classes, ": they must be equal"));
  }
  Model model;
  model.sample_shape_ = sample_shape;
  model.sample_elements_ = sample_elements;
  model.classes_ = classes;
  model.variables_ = std::move(builder.variables());
  model.layers_ = std::move(builder.layers());
  model.graph_ = std::make_shared<LayerGraph>(sample_elements, std::move(builder.graph_layers()));
  return model;
}

std::vector<Range> Model::ready_order() const {
  std::vector<Range> order;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (layer->variables.empty()) continue;
    const int64_t begin = layer->variables.front().begin;
    order.push_back({begin, layer->variables.back().end() - begin});
  }
  return order;
}

}  // namespace tethys
