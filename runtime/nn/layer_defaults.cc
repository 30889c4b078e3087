#include "runtime/nn/layer_defaults.h"

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

// `Layer` is a dense layer or a convolution.
template <typename Layer>
void ResolveInitializer(Layer& layer) {
  if (layer.initializer() != proto::INITIALIZER_DEFAULT) return;
  layer.set_initializer(layer.activation() == proto::RELU ? proto::HE_NORMAL : proto::GLOROT_UNIFORM);
}

}  // namespace

std::string LayerKind(const proto::Layer& layer) {
  const google::protobuf::OneofDescriptor& kinds = *layer.GetDescriptor()->FindOneofByName("kind");
  const google::protobuf::FieldDescriptor* kind =
      layer.GetReflection()->GetOneofFieldDescriptor(layer, &kinds);
  return kind == nullptr ? "layer" : kind->name();
}

void ResolveLayer(int position, proto::Layer& layer) {
  if (!layer.has_name()) layer.set_name(absl::StrCat(LayerKind(layer), "_", position));
  if (layer.has_dense()) ResolveInitializer(*layer.mutable_dense());
  if (layer.has_convolution()) {
    proto::Convolution& convolution = *layer.mutable_convolution();
    ResolveInitializer(convolution);
    if (!convolution.has_stride()) convolution.set_stride(1);
  }
  if (layer.has_max_pooling()) {
    proto::MaxPooling& pooling = *layer.mutable_max_pooling();
    if (!pooling.has_size()) pooling.set_size(2);
    if (!pooling.has_stride()) pooling.set_stride(pooling.size());
  }
}

int64_t BiasElements(const proto::Layer& layer) {
  return layer.has_dense() ? layer.dense().units() : layer.convolution().filters();
}

}  // namespace tethys
