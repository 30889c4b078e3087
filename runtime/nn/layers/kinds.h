// The kinds of layers, one a file of this folder, for the table in layer_kind.cc.
#ifndef TETHYS_RUNTIME_NN_LAYERS_KINDS_H_
#define TETHYS_RUNTIME_NN_LAYERS_KINDS_H_

#include "runtime/nn/layers/layer_kind.h"

namespace tethys {

extern const LayerKind kActivateKind, kAddKind, kAveragePoolingKind, kBatchNormalisationKind,
    kConcatenationKind, kConvolutionKind, kDenseKind, kDropoutKind, kFlattenKind, kGlobalAveragePoolingKind,
    kMaxPoolingKind, kTransposedConvolutionKind;

// LayerKind::most_inputs of a layer that takes any number.
inline constexpr int kManyInputs = 1 << 20;

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_KINDS_H_
