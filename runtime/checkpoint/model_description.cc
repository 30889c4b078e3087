#include "runtime/checkpoint/model_description.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "runtime/nn/layers/model_inputs.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

// The model's layers with all defaults filled in, and with the indices of layers in place of the names of
// inputs. Filling in the defaults keeps the meaning of a checkpoint that was written before a field existed.
proto::Model WithoutNames(const proto::Model& description, int64_t classes) {
  proto::Model model = ExpandModel(description, classes);
  const ModelInputs inputs = FindInputs(model);
  for (int i = 0; i < model.layer_size(); ++i) {
    proto::Layer& layer = *model.mutable_layer(i);
    layer.clear_name();
    layer.clear_trainable();
    if (inputs.wrong_layer >= 0) continue;
    layer.clear_input();
    for (const int input : inputs.layers[i]) {
      if (inputs.layers[i].size() > 1 || input != i - 1) layer.add_input(absl::StrCat("layer ", input));
    }
  }
  return model;
}

// The fields of layer `index` that decide what the layer computes, in text format.
std::string LayerText(const proto::Model& model, int index) {
  if (index >= model.layer_size()) return "nothing";
  proto::Layer layer = model.layer(index);
  if (layer.has_dense()) layer.mutable_dense()->clear_initializer();
  if (layer.has_convolution()) layer.mutable_convolution()->clear_initializer();
  return layer.ShortDebugString();
}

std::string ScalingText(const InputScaling& scaling) {
  return absl::StrCat(scaling.type == ValueType::kFloat ? "(float32) " : "", "mean ",
                      absl::StrJoin(scaling.mean, ", "), " and deviation ",
                      absl::StrJoin(scaling.deviation, ", "));
}

}  // namespace

InputScaling ScalingOf(const proto::InputScaling& message, bool float_inputs) {
  InputScaling scaling;
  if (float_inputs) scaling.type = ValueType::kFloat;
  if (message.mean_size() > 0) scaling.mean.assign(message.mean().begin(), message.mean().end());
  if (message.deviation_size() > 0) {
    scaling.deviation.assign(message.deviation().begin(), message.deviation().end());
  }
  return scaling;
}

proto::InputScaling MessageOf(const InputScaling& scaling) {
  proto::InputScaling message;
  message.mutable_mean()->Assign(scaling.mean.begin(), scaling.mean.end());
  message.mutable_deviation()->Assign(scaling.deviation.begin(), scaling.deviation.end());
  return message;
}

proto::ModelDescription DescribeModel(const proto::JobPlan& plan, const proto::InputScaling& scaling) {
  proto::ModelDescription description;
  *description.mutable_model() = plan.job().model();
  *description.mutable_sample_shape() = plan.sample_shape();
  description.set_classes(plan.job().data().classes());
  // If `scaling` has no numbers, the standardisation is unknown, and the field stays unset. A field that is
  // set but empty would mean a standardisation that changes nothing.
  if (scaling.mean_size() > 0) *description.mutable_scaling() = scaling;
  description.set_float_inputs(plan.float_inputs());
  *description.mutable_class_name() = plan.class_name();
  return description;
}

absl::Status CheckSameModel(const proto::ModelDescription& saved, const proto::Model& model,
                            const std::string& path) {
  if (!saved.has_model()) return absl::OkStatus();
  // The number of classes is not compared here, because a difference shows in the shapes of the variables.
  const proto::Model of_checkpoint = WithoutNames(saved.model(), saved.classes());
  const proto::Model of_job = WithoutNames(model, saved.classes());
  for (int i = 0; i < std::max(of_checkpoint.layer_size(), of_job.layer_size()); ++i) {
    const std::string there = LayerText(of_checkpoint, i);
    const std::string here = LayerText(of_job, i);
    if (there == here) continue;
    return absl::FailedPreconditionError(absl::StrCat(path, " is of another model: layer ", i, " is ", there,
                                                      " in the checkpoint and ", here, " in the job"));
  }
  return absl::OkStatus();
}

absl::Status CheckSameScaling(const proto::ModelDescription& saved, const InputScaling& here,
                              const std::string& path) {
  if (!saved.has_scaling()) return absl::OkStatus();
  const InputScaling there = ScalingOf(saved.scaling(), saved.float_inputs());
  if (there == here) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, " was trained on inputs standardised by ", ScalingText(there), ", but the job standardises by ",
      ScalingText(here), ": use the same data and data.mean, data.deviation, data.compute_standardisation"));
}

}  // namespace tethys
