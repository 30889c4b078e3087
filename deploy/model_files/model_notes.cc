#include "deploy/model_files/model_notes.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/checkpoint/model_description.h"

namespace tethys {
namespace {

bool IsImage(const Shape& shape) { return shape.size() == 2 || shape.size() == 3; }

// True if tethys resizes samples of this shape.
bool IsPicture(const Shape& shape) {
  return shape.size() == 2 || (shape.size() == 3 && (shape[2] == 1 || shape[2] == 3));
}

// The shape of a batch: "[N, 3, 32, 32]" for images [32, 32, 3]; other samples keep their axes.
std::string BatchText(const Shape& shape) {
  Shape axes = shape;
  if (IsImage(shape)) axes = {shape.size() == 3 ? shape[2] : 1, shape[0], shape[1]};
  return absl::StrCat("[N, ", absl::StrJoin(axes, ", "), "]");
}

// Nine digits tell every float from its neighbours.
void AppendFloat(std::string* out, float value) { absl::StrAppendFormat(out, "%.9g", value); }

std::string ListText(const std::vector<float>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ", ", AppendFloat), "]");
}

std::string JsonText(const std::string& text) {
  google::protobuf::StringValue value;
  value.set_value(text);
  std::string json;
  TETHYS_CHECK(google::protobuf::util::MessageToJsonString(value, &json).ok());
  return json;
}

// Describes the method of ResizePixels (runtime/data/picture.h) to the user.
constexpr char kResizeText[] =
    "tethys resizes pictures bilinearly between the centres of pixels, without antialiasing, and rounds to "
    "bytes, halves upwards, as torch.nn.functional.interpolate(pixels.float(), size, "
    "mode=\"bilinear\").add(0.5).floor() does; Pillow's resize smooths, so it gives other pixels";

const char* ValuesText(bool floats, bool known, Standardised standardised) {
  if (standardised == Standardised::kInside) {
    return floats ? "as they are in the data: the network standardises them itself"
                  : "pixels from 0 to 255, as they are in the data, not divided by 255: the network "
                    "standardises them itself";
  }
  if (!known) return "standardised as in training; this checkpoint, made by an old build, does not say how";
  return floats ? "(value - mean) / deviation, of values as they are in the data"
                : "(pixel / 255 - mean) / deviation, of pixels from 0 to 255";
}

// Tells the user how to change the axes of the data's images to the axes of the network's input, with the
// expressions of PyTorch and NumPy.
std::string OrderText(const Model& model) {
  const Shape& sample = model.sample_shape();
  if (sample.size() == 2) {
    return absl::StrCat("pictures [N, ", absl::StrJoin(sample, ", "),
                        "], as in the data, need an axis of channels: pixels",
                        ChannelsFirstText(model, ArrayLibrary::kTorch), " in PyTorch and NumPy");
  }
  return absl::StrCat("pictures [N, ", absl::StrJoin(sample, ", "),
                      "], as in the data, have their channels last; move them by pixels",
                      ChannelsFirstText(model, ArrayLibrary::kTorch), " in PyTorch, or pixels",
                      ChannelsFirstText(model, ArrayLibrary::kNumpy), " in NumPy");
}

}  // namespace

std::string ChannelsFirstText(const Model& model, ArrayLibrary library) {
  if (!IsImage(model.sample_shape())) return "";
  if (model.sample_shape().size() == 2) return "[:, None]";
  return library == ArrayLibrary::kTorch ? ".permute(0, 3, 1, 2)" : ".transpose(0, 3, 1, 2)";
}

ModelNotes NotesOn(const proto::ModelDescription& description, const Model& model,
                   Standardised standardised) {
  const bool known = description.has_scaling();
  const Shape& sample = model.sample_shape();
  ModelNotes notes = {{"input", absl::StrCat("float32 ", BatchText(sample),
                                             IsImage(sample) ? " (batch, channels, height, width)" : "")}};
  if (IsImage(sample)) notes.emplace_back("order", OrderText(model));
  notes.emplace_back("values", ValuesText(description.float_inputs(), known, standardised));
  if (IsPicture(sample)) notes.emplace_back("resize", kResizeText);
  if (known) {
    const InputScaling scaling = ScalingOf(description.scaling(), description.float_inputs());
    notes.emplace_back("mean", ListText(scaling.mean));
    notes.emplace_back("deviation", ListText(scaling.deviation));
  }
  const bool targets = model.loss().labels().targets;
  notes.emplace_back("output",
                     absl::StrCat(targets ? "" : "logits, ", "float32 ", BatchText(model.output_shape())));
  if (description.class_name().empty()) return notes;
  const auto add_name = [](std::string* out, const std::string& name) { out->append(JsonText(name)); };
  notes.emplace_back("class_names",
                     absl::StrCat("[", absl::StrJoin(description.class_name(), ", ", add_name), "]"));
  return notes;
}

std::string TorchInputText(const proto::ModelDescription& description, const Model& model) {
  if (!description.has_scaling()) return "";
  const InputScaling scaling = ScalingOf(description.scaling(), description.float_inputs());
  const auto text = [&](const std::vector<float>& values) {
    std::string number;
    if (values.size() == 1) {
      AppendFloat(&number, values[0]);
      return values[0] < 0 ? absl::StrCat("(", number, ")") : number;
    }
    return absl::StrCat("torch.tensor(", ListText(values), ")",
                        IsImage(model.sample_shape()) ? ".view(-1, 1, 1)" : "");
  };
  return absl::StrCat("(", description.float_inputs() ? "values" : "pixels / 255", " - ", text(scaling.mean),
                      ") / ", text(scaling.deviation));
}

}  // namespace tethys
