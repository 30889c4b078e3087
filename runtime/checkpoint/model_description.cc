#include "runtime/checkpoint/model_description.h"

#include <algorithm>

#include "runtime/nn/layers/layer_defaults.h"

namespace tethys {
namespace {

// The fields of layer `index` that decide what it computes, in text format. Defaults are filled in, so that a
// checkpoint from before a field was there means what it meant then.
std::string LayerText(const proto::Model& model, int index) {
  if (index >= model.layer_size()) return "nothing";
  proto::Layer layer = model.layer(index);
  ResolveLayer(index, layer);
  layer.clear_name();
  if (layer.has_dense()) layer.mutable_dense()->clear_initializer();
  if (layer.has_convolution()) layer.mutable_convolution()->clear_initializer();
  return layer.ShortDebugString();
}

std::string ScalingText(const proto::InputScaling& scaling) {
  return absl::StrCat("mean ", scaling.mean(), " and deviation ", scaling.deviation());
}

}  // namespace

absl::Status CheckSameModel(const proto::ModelDescription& saved, const proto::Model& model,
                            const std::string& path) {
  if (!saved.has_model()) return absl::OkStatus();
  for (int i = 0; i < std::max(saved.model().layer_size(), model.layer_size()); ++i) {
    const std::string there = LayerText(saved.model(), i);
    const std::string here = LayerText(model, i);
    if (there == here) continue;
    return absl::FailedPreconditionError(absl::StrCat(path, " is of another model: layer ", i, " is ", there,
                                                      " there and ", here, " in the job"));
  }
  return absl::OkStatus();
}

absl::Status CheckSameScaling(const proto::ModelDescription& saved, const proto::InputScaling& scaling,
                              const std::string& path) {
  if (!saved.has_scaling() ||
      (saved.scaling().mean() == scaling.mean() && saved.scaling().deviation() == scaling.deviation())) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, " was trained on inputs standardised by ", ScalingText(saved.scaling()),
                   ", the job has ", ScalingText(scaling),
                   ": use the same data and data.mean, data.deviation, data.compute_standardisation"));
}

}  // namespace tethys
