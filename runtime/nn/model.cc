#include "runtime/nn/model.h"

#include <set>
#include <string>
#include <utility>

namespace tethys {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 33;

std::string LayerName(const proto::Layer& layer, int position) {
  if (!layer.name().empty()) return layer.name();
  return absl::StrCat(layer.has_flatten() ? "flatten" : "dense", "_", position);
}

InitialValue WeightsInitialValue(const proto::Dense& dense) {
  switch (dense.initializer()) {
    case proto::GLOROT_UNIFORM:
      return InitialValue::kGlorotUniform;
    case proto::HE_NORMAL:
      return InitialValue::kHeNormal;
    default:
      return dense.activation() == proto::RELU ? InitialValue::kHeNormal : InitialValue::kGlorotUniform;
  }
}

// Adds the layer's variables and describes it. `shape` is its input's.
absl::StatusOr<Model::DenseLayer> AddDense(const std::string& name, const proto::Dense& dense,
                                           const Shape& shape, VariableSet& variables) {
  if (shape.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("its input has shape ", ShapeText(shape),
                     ", but a dense layer needs one axis: put a flatten before it"));
  }
  const int64_t in = shape[0];
  const int64_t out = dense.units();
  if (out < 1) return absl::InvalidArgumentError(absl::StrCat("units is ", out, "; it must be 1 or more"));
  const int64_t room = kMaxParameters - variables.arena_size();
  if (out > room / (in + 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "with ", in, " inputs and ", out, " units the model exceeds ", kMaxParameters, " parameters"));
  }
  const std::string weights = name + "/weights";
  const std::string bias = name + "/bias";
  TETHYS_RETURN_IF_ERROR(variables.Add(weights, {in, out}, "in,out", WeightsInitialValue(dense), in, out));
  TETHYS_RETURN_IF_ERROR(variables.Add(bias, {out}, "out", InitialValue::kZeros, in, out));
  return Model::DenseLayer{.name = name,
                           .in = in,
                           .out = out,
                           .relu = dense.activation() == proto::RELU,
                           .weights = variables.Find(weights)->range,
                           .bias = variables.Find(bias)->range};
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
    const proto::Layer& layer = config.layer(i);
    const std::string name = LayerName(layer, i);
    const std::string where = absl::StrCat("model.layer[", i, "] '", name, "'");
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": an earlier layer has this name; give it another"));
    }
    if (layer.has_flatten()) {
      TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(shape));
      shape = {elements};
    } else if (layer.has_dense()) {
      auto dense = AddDense(name, layer.dense(), shape, model.variables_);
      if (!dense.ok()) return Annotate(dense.status(), where);
      shape = {dense->out};
      model.dense_layers_.push_back(*std::move(dense));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": has no kind; write flatten {} or dense { ... }"));
    }
  }
  if (model.dense_layers_.empty()) {
    return absl::InvalidArgumentError("model: has no dense layer, so there is nothing to train");
  }
  if (shape != Shape{classes}) {
    return absl::InvalidArgumentError(absl::StrCat("model: the last layer gives shape ", ShapeText(shape),
                                                   ", but data.classes is ", classes,
                                                   ": they must be equal"));
  }
  return model;
}

std::vector<Range> Model::ready_order() const {
  std::vector<Range> order;
  for (auto layer = dense_layers_.rbegin(); layer != dense_layers_.rend(); ++layer) {
    order.push_back({layer->weights.begin, layer->bias.end() - layer->weights.begin});
  }
  return order;
}

int64_t Model::flops_per_sample() const {
  int64_t flops = 0;
  for (const DenseLayer& layer : dense_layers_) {
    // Forward and weight gradient; the input gradient too, except of the first layer.
    const int64_t products = &layer == &dense_layers_.front() ? 2 : 3;
    flops += products * 2 * layer.in * layer.out;
  }
  return flops;
}

}  // namespace tethys
