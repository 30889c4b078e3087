// Finds, for each layer of a model, the layers that it reads, from the names in the model's description.
// Pure; any thread.
#ifndef TETHYS_RUNTIME_NN_LAYERS_MODEL_INPUTS_H_
#define TETHYS_RUNTIME_NN_LAYERS_MODEL_INPUTS_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tethys {

// The name by which the inputs of a layer refer to the batch.
inline constexpr char kBatchName[] = "input";

struct ModelInputs {
  static constexpr int kBatch = -1;
  // For each layer, the indices of the layers that it reads, or kBatch.
  std::vector<std::vector<int>> layers;
  // The first layer whose name or inputs are wrong; -1: all layers are right, and each reads earlier layers
  // only. `problem` says what is wrong, in words that follow the layer's name: "has no reader: ...".
  int wrong_layer = -1;
  std::string problem;
};

// The layers must be resolved (layer_defaults.h). These are errors: a name that is empty, repeated or equal
// to kBatchName; a layer without a kind; an input that is not an earlier layer; more inputs than the kind
// takes; an output, other than the output of the last layer, that no layer reads; more than 4096 layers; more
// than 16,384 inputs of all layers together. (The last two limits bound the time to plan memory.)
ModelInputs FindInputs(const proto::Model& model);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_MODEL_INPUTS_H_
