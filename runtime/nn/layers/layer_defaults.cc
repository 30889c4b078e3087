#include "runtime/nn/layers/layer_defaults.h"

#include "absl/strings/str_cat.h"
#include "runtime/nn/layers/layer_kind.h"

namespace tethys {
namespace {

const google::protobuf::OneofDescriptor& Kinds() {
  return *proto::Layer::descriptor()->FindOneofByName("kind");
}

}  // namespace

std::string LayerKindName(const proto::Layer& layer) {
  const google::protobuf::FieldDescriptor* kind =
      layer.GetReflection()->GetOneofFieldDescriptor(layer, &Kinds());
  return kind == nullptr ? "layer" : kind->name();
}

void ResolveLayer(int position, proto::Layer& layer) {
  if (!layer.has_name()) layer.set_name(absl::StrCat(LayerKindName(layer), "_", position));
  const LayerKind* const kind = FindLayerKind(layer);
  if (kind != nullptr && kind->complete != nullptr) kind->complete(layer);
}

void ForEachLayerNumber(absl::FunctionRef<void(const std::string& path, const NumberRule& rule)> visit) {
  for (int i = 0; i < Kinds().field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *Kinds().field(i);
    for (const NumberRule& rule : FindLayerKind(proto::Layer::KindCase(field.number()))->numbers) {
      visit(absl::StrCat(field.name(), ".", rule.field), rule);
    }
  }
}

std::string LayerKindList() {
  std::string list;
  for (int i = 0; i < Kinds().field_count(); ++i) {
    absl::StrAppend(&list,
                    i == 0                          ? ""
                    : i + 1 < Kinds().field_count() ? ", "
                                                    : " or ",
                    Kinds().field(i)->name());
  }
  return list;
}

int64_t SmallestVariable(const proto::Layer& layer) {
  const LayerKind* const kind = FindLayerKind(layer);
  return kind != nullptr && kind->smallest_variable != nullptr ? kind->smallest_variable(layer) : 0;
}

std::string LayerText(const proto::Layer& layer) {
  const LayerKind* const kind = FindLayerKind(layer);
  return kind != nullptr ? kind->text(layer) : LayerKindName(layer);
}

}  // namespace tethys
