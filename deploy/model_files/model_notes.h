// Notes for the user of an exported model: its inputs, its outputs, and the names of its classes. Files of
// weights hold the notes as metadata, and `tethys export` prints them. Pure; any thread.
#ifndef TETHYS_DEPLOY_MODEL_FILES_MODEL_NOTES_H_
#define TETHYS_DEPLOY_MODEL_FILES_MODEL_NOTES_H_

#include <string>
#include <utility>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "runtime/nn/model.h"

namespace tethys {

// Who standardises the values of a sample: the caller or the network.
enum class Standardised {
  kByCaller,  // The caller passes standardised values, as to a network in PyTorch.
  // The first nodes of the network standardise the values, which are passed as they are in the data.
  kInside,
};

// Keys with their texts, in the order in which they are shown. An image is a sample with two or three axes. A
// picture is an image without an axis of channels, or with 1 or 3 channels:
//   input        "float32 [N, 3, 32, 32] (batch, channels, height, width)"
//   order        how images with their channels last, or without an axis of channels, become the input
//   values       what the numbers of the input are
//   resize       how pictures of another size become pictures of the model's size
//   mean         "[0.4914, 0.4822, 0.4465]", a list in JSON: one number, or one for each channel
//   deviation    a list like `mean`
//   output       "logits, float32 [N, 10]"
//   class_names  a list in JSON, by the class's number; absent if the classes have no names
// `mean` and `deviation` are absent if the checkpoint does not contain them. `order` is absent if samples are
// no images. `resize` is absent if samples are no pictures.
using ModelNotes = std::vector<std::pair<std::string, std::string>>;
ModelNotes NotesOn(const proto::ModelDescription& description, const Model& model, Standardised standardised);

enum class ArrayLibrary { kTorch, kNumpy };
// The code to append to the name of a batch of images, so that the axis of channels comes before height and
// width: ".permute(0, 3, 1, 2)" in PyTorch, ".transpose(0, 3, 1, 2)" in NumPy. For images without an axis of
// channels, "[:, None]" in both adds this axis. Empty if samples are no images.
std::string ChannelsFirstText(const Model& model, ArrayLibrary library);

// The expression in PyTorch that turns values of the data into the network's input, such as "(pixels / 255 -
// 0.286) / 0.353". If there is a mean for each channel, it is written as a tensor [channels, 1, 1], and so is
// the deviation. Empty if the checkpoint does not contain mean and deviation.
std::string TorchInputText(const proto::ModelDescription& description, const Model& model);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_MODEL_FILES_MODEL_NOTES_H_
