// The weights of a model under PyTorch's names and in PyTorch's layouts, so that load_state_dict accepts a
// safetensors file of them. The names of layers are kept; the families of runtime/nn/zoo use torchvision's
// names.
//
//   ours                               PyTorch's
//   NAME/filters [out, h, w, in]       NAME.weight [out, in, h, w]
//   NAME/weights [in, out]             NAME.weight [out, in]; after a flatten of images, `in` is in the order
//                                      of PyTorch's flatten, [c, h, w], instead of [h, w, c]
//   NAME/bias                          NAME.bias
//   NAME/scale, NAME/offset            NAME.weight, NAME.bias
//   NAME/moving_mean, .../moving_variance  NAME.running_mean, NAME.running_var
//
// Pure; any thread.
#ifndef TETHYS_DEPLOY_MODEL_FILES_TORCH_WEIGHTS_H_
#define TETHYS_DEPLOY_MODEL_FILES_TORCH_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "runtime/nn/model.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct TorchTensor {
  std::string name;
  Shape shape = {};
  Variable variable = {};  // A variable or statistic of the model; it has as many elements as the tensor.
  bool statistic = false;  // True if the variable is a moving statistic.
  // The axes of the variable, split wherever PyTorch's layout needs a part of an axis. `order[i]` is the axis
  // of the variable that is axis i in PyTorch's layout.
  Shape axes = {};
  std::vector<int> order = {};
};

// All tensors of the model that `config` describes, in the order of its layers. InvalidArgument: a layer that
// is neither dense nor dropout nor an activation reads the features of a flattened image, which have another
// order in PyTorch; the message names the layer.
absl::StatusOr<std::vector<TorchTensor>> TorchTensorsOf(const proto::Model& config, const Model& model);

// Copy the elements of one tensor from one layout to the other.
void ToTorchLayout(const TorchTensor& tensor, absl::Span<const float> ours, absl::Span<float> torch);
void FromTorchLayout(const TorchTensor& tensor, absl::Span<const float> torch, absl::Span<float> ours);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_MODEL_FILES_TORCH_WEIGHTS_H_
