#include "runtime/nn/layers/model_inputs.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "runtime/nn/layers/layer_defaults.h"
#include "runtime/nn/layers/layer_kind.h"

namespace tethys {
namespace {

constexpr int kMostLayers = 4096;
constexpr int kMostInputs = 4 * kMostLayers;  // The most inputs that all layers together may have.

std::string UnknownInput(const proto::Model& model, int reader, const std::string& name) {
  if (name == model.layer(reader).name()) return "has itself as its input: a model has no cycles";
  for (int i = reader + 1; i < model.layer_size(); ++i) {
    if (model.layer(i).name() != name) continue;
    return absl::StrCat("has the input '", name, "', which is model.layer[", i,
                        "]: a layer reads only layers before it, so that a model has no cycles");
  }
  return absl::StrCat("has the input '", name,
                      "', which is no layer: give the name of an earlier layer, or '", kBatchName,
                      "' for the batch");
}

// Finds the inputs of one layer, and returns what is wrong with the layer; empty if nothing is.
std::string Find(const proto::Model& model, int position, const std::map<std::string, int>& earlier,
                 std::vector<int>& inputs) {
  const proto::Layer& layer = model.layer(position);
  if (position >= kMostLayers)
    return absl::StrCat("is one too many: a model has at most ", kMostLayers, " layers");
  if (layer.name().empty()) return "has an empty name; give it one, or leave the field out";
  if (layer.name() == kBatchName) {
    return absl::StrCat("has the name of the batch, '", kBatchName, "': give it another name");
  }
  if (earlier.count(layer.name()) > 0) {
    return absl::StrCat("has the name of an earlier layer, '", layer.name(),
                        "': give every layer its own name");
  }
  const LayerKind* const kind = FindLayerKind(layer);
  if (kind == nullptr) return absl::StrCat("has no kind: write one of ", LayerKindList());
  for (const std::string& name : layer.input()) {
    const auto found = earlier.find(name);
    if (found == earlier.end()) return UnknownInput(model, position, name);
    inputs.push_back(found->second);
  }
  if (inputs.empty()) inputs.push_back(position == 0 ? ModelInputs::kBatch : position - 1);
  if (static_cast<int>(inputs.size()) <= kind->most_inputs) return "";
  return absl::StrCat("has ", inputs.size(), " inputs; this kind of layer takes at most ", kind->most_inputs);
}

}  // namespace

ModelInputs FindInputs(const proto::Model& model) {
  ModelInputs result;
  std::map<std::string, int> earlier = {{kBatchName, ModelInputs::kBatch}};
  std::vector<bool> read(model.layer_size());
  int total = 0;
  for (int i = 0; i < model.layer_size(); ++i) {
    std::vector<int>& inputs = result.layers.emplace_back();
    result.problem = Find(model, i, earlier, inputs);
    result.wrong_layer = result.problem.empty() ? -1 : i;
    if (result.wrong_layer >= 0) return result;
    total += static_cast<int>(inputs.size());
    if (total > kMostInputs) {
      result.wrong_layer = i;
      result.problem = absl::StrCat("raises the number of inputs in the model to ", total,
                                    "; a model has at most ", kMostInputs);
      return result;
    }
    for (const int input : inputs) {
      if (input != ModelInputs::kBatch) read[input] = true;
    }
    earlier[model.layer(i).name()] = i;
  }
  for (int i = 0; i + 1 < model.layer_size(); ++i) {
    if (read[i]) continue;
    result.wrong_layer = i;
    result.problem = "has no reader: name this layer as the input of a later layer, or leave this layer out";
    return result;
  }
  return result;
}

}  // namespace tethys
