#include "runtime/nn/zoo/zoo.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/nn/layers/layer_defaults.h"
#include "runtime/nn/zoo/family.h"

namespace tethys {
namespace {

// Null if the model is not a family but a list of layers.
const FamilyKind* FindFamily(const proto::Model& model) {
  for (const FamilyKind* family :
       {&kLenetFamily, &kVggFamily, &kResnetFamily, &kMobilenetFamily, &kFcnFamily}) {
    if (family->kind == model.family_case()) return family;
  }
  return nullptr;
}

bool BeginsWithAny(const std::string& name, const google::protobuf::RepeatedPtrField<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&name](const std::string& part) { return absl::StartsWith(name, part); });
}

}  // namespace

void CompleteFamily(proto::Model& model) {
  const FamilyKind* const family = FindFamily(model);
  if (family != nullptr && family->complete != nullptr) family->complete(model);
}

std::string FamilyProblem(const proto::Model& model) {
  const FamilyKind* const family = FindFamily(model);
  return family != nullptr && family->problem != nullptr ? family->problem(model) : "";
}

proto::Model ExpandModel(const proto::Model& model, int64_t classes) {
  proto::Model expanded = model;
  if (const FamilyKind* const family = FindFamily(model); family != nullptr) {
    proto::Model complete = model;
    CompleteFamily(complete);
    expanded.clear_family();
    if (FamilyProblem(complete).empty()) {
      LayerWriter layers(expanded);
      family->expand(complete, classes, layers);
    }
  }
  for (int i = 0; i < expanded.layer_size(); ++i) {
    proto::Layer& layer = *expanded.mutable_layer(i);
    ResolveLayer(i, layer);
    if (BeginsWithAny(layer.name(), model.frozen())) layer.set_trainable(false);
  }
  expanded.clear_frozen();
  return expanded;
}

std::string ModelText(const proto::Model& model) {
  if (const FamilyKind* const family = FindFamily(model); family != nullptr) return family->text(model);
  return absl::StrJoin(model.layer(), ", ", [](std::string* out, const proto::Layer& layer) {
    absl::StrAppend(out, LayerText(layer));
  });
}

}  // namespace tethys
