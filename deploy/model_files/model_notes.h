// What the user of an exported model has to know: what goes in, what comes out, which class is which. Files
// of weights hold it as their metadata, and `tethys export` prints it. Pure; any thread.
#ifndef TETHYS_DEPLOY_MODEL_FILES_MODEL_NOTES_H_
#define TETHYS_DEPLOY_MODEL_FILES_MODEL_NOTES_H_

#include <string>
#include <utility>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "runtime/nn/model.h"

namespace tethys {

// Who standardises the values of a sample.
enum class Standardised {
  kByCaller,  // The network gets standardised values, as a network of PyTorch does.
  kInside,    // The network's first nodes do it: it gets the values as they are in the data.
};

// Keys with their texts, in an order to be read in:
//   input        "float32 [N, 3, 32, 32] (batch, channels, height, width)"
//   values       what the numbers of the input are
//   mean         "[0.4914, 0.4822, 0.4465]", a list in JSON: one number, or one for each channel
//   deviation    the same
//   output       "logits, float32 [N, 10]"
//   class_names  a list in JSON, by the class's number; absent if the classes have no names
// Mean and deviation are absent if the checkpoint does not say them.
using ModelNotes = std::vector<std::pair<std::string, std::string>>;
ModelNotes NotesOn(const proto::ModelDescription& description, const Model& model, Standardised standardised);

// The expression in PyTorch that makes the network's input of the data's values: "(pixels / 255 - 0.286) /
// 0.353"; lists of channels become tensors [channels, 1, 1]. Empty: the checkpoint does not say how.
std::string TorchInputText(const proto::ModelDescription& description, const Model& model);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_MODEL_FILES_MODEL_NOTES_H_
