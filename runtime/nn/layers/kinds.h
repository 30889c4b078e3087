// The table of layers: a row for each kind of proto::Layer. Each kind has one file in this folder, which
// includes this header.
#ifndef TETHYS_RUNTIME_NN_LAYERS_KINDS_H_
#define TETHYS_RUNTIME_NN_LAYERS_KINDS_H_

#include "runtime/nn/layers/layer_kind.h"

namespace tethys {

// ROW(Name) for the kind proto::Layer::kName, whose file defines `const LayerKind kNameKind`. A kind in
// job.proto that has no row here causes an error at compile time.
#define TETHYS_LAYER_KINDS(ROW) \
  ROW(Activate)                 \
  ROW(Add)                      \
  ROW(AveragePooling)           \
  ROW(BatchNormalisation)       \
  ROW(Concatenation)            \
  ROW(Convolution)              \
  ROW(Dense)                    \
  ROW(Dropout)                  \
  ROW(Flatten)                  \
  ROW(GlobalAveragePooling)     \
  ROW(MaxPooling)               \
  ROW(TransposedConvolution)

#define TETHYS_DECLARE_KIND(Name) extern const LayerKind k##Name##Kind;
TETHYS_LAYER_KINDS(TETHYS_DECLARE_KIND)
#undef TETHYS_DECLARE_KIND

// The value of LayerKind::most_inputs for a layer that takes any number of inputs.
inline constexpr int kManyInputs = 1 << 20;

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_KINDS_H_
