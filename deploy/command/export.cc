#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "deploy/command/verbs.h"
#include "deploy/model_files/model_notes.h"
#include "deploy/model_files/onnx_model.h"
#include "deploy/model_files/weights_file.h"
#include "deploy/run/saved_model.h"
#include "deploy/text.h"
#include "deploy/whole_file.h"

namespace tethys {
namespace {

absl::Status ReadElements(const SavedModel& saved, const Variable& variable, bool statistic,
                          absl::Span<float> values) {
  const Range& range = variable.range;
  if (!statistic) return saved.reader->Read(0, range.begin, values);
  std::copy_n(saved.statistics.begin() + range.begin, range.count, values.begin());
  return absl::OkStatus();
}

absl::Status ExportTorchWeights(const SavedModel& saved, const ModelNotes& notes, WholeFile& file) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<TorchTensor> tensors,
                          TorchTensorsOf(saved.description().model(), saved.model));
  return WriteTorchWeights(file, tensors, notes, [&saved](const TorchTensor& tensor, absl::Span<float> ours) {
    return ReadElements(saved, tensor.variable, tensor.statistic, ours);
  });
}

absl::Status ExportOnnx(const SavedModel& saved, const ModelNotes& notes, WholeFile& file) {
  TETHYS_ASSIGN_OR_RETURN(const InputScaling scaling, ScalingOf(saved));
  TETHYS_ASSIGN_OR_RETURN(
      proto::onnx::ModelProto model,
      MakeOnnxModel(saved.description().model(), saved.model, scaling,
                    [&saved](const Variable& variable, bool statistic, absl::Span<float> values) {
                      return ReadElements(saved, variable, statistic, values);
                    }));
  AddNotes(notes, model);
  return file.Append(model.SerializeAsString());
}

std::string TorchUse(const SavedModel& saved, const std::string& path) {
  const std::string input = TorchInputText(saved.description(), saved.model);
  const std::string order = ChannelsFirstText(saved.model, ArrayLibrary::kTorch);
  const char* const name = saved.description().float_inputs() ? "values" : "pixels";
  return absl::StrCat("model.load_state_dict(safetensors.torch.load_file(\"", path, "\")); model.eval(); ",
                      order.empty() ? "" : absl::StrCat(name, " = ", name, order, "; "), "model(",
                      input.empty() ? "input" : input, ")");
}

std::string OnnxUse(const SavedModel& saved, const std::string& path) {
  return absl::StrCat("onnxruntime.InferenceSession(\"", path, "\").run(None, {\"input\": batch",
                      ChannelsFirstText(saved.model, ArrayLibrary::kNumpy), ".astype(\"float32\")})");
}

// An export format, chosen by the end of the file's name. `write` does not commit the file.
struct Format {
  const char* ending;
  Standardised standardised;
  absl::Status (*write)(const SavedModel& saved, const ModelNotes& notes, WholeFile& file);
  // Text that shows how a program loads the file.
  std::string (*use)(const SavedModel& saved, const std::string& path);
};
constexpr Format kFormats[] = {{".safetensors", Standardised::kByCaller, ExportTorchWeights, TorchUse},
                               {".onnx", Standardised::kInside, ExportOnnx, OnnxUse}};

absl::StatusOr<const Format*> FindFormat(const std::string& path) {
  std::string endings;
  for (const Format& format : kFormats) {
    if (absl::EndsWith(path, format.ending)) return &format;
    absl::StrAppend(&endings, endings.empty() ? "" : " or ", format.ending);
  }
  return absl::InvalidArgumentError(absl::StrCat("--out=", path, " must end in ", endings));
}

// A line for each note, and a line with `use`: how a program loads the file.
std::string NotesText(const ModelNotes& notes, const std::string& use) {
  constexpr int kIndent = 15, kWidth = 110;
  std::string text;
  for (const auto& [key, value] : notes) {
    absl::StrAppend(&text, WrapBeside(absl::StrCat("  ", key), value, kIndent, kWidth));
  }
  return absl::StrCat(text, WrapBeside("  use", use, kIndent, kWidth));
}

int Export(const Flags& flags) {
  const std::string path = flags.Get("out");
  const absl::StatusOr<const Format*> format = FindFormat(path);
  if (!format.ok()) return Fail("export", format.status(), kExitBadRequest);
  const absl::StatusOr<SavedModel> saved = OpenSavedModel(flags.Get("checkpoint"));
  if (!saved.ok()) return Fail("export", saved.status(), kExitBadRequest);
  absl::StatusOr<WholeFile> file = WholeFile::Create(path);
  if (!file.ok()) return Fail("export", Annotate(file.status(), "--out"), kExitBadRequest);
  const ModelNotes notes = NotesOn(saved->description(), saved->model, (*format)->standardised);
  absl::Status written = (*format)->write(*saved, notes, *file);
  if (written.ok()) written = file->Commit();
  if (!written.ok()) {
    const bool bad = absl::IsInvalidArgument(written) || absl::IsFailedPrecondition(written);
    return Fail("export", written, bad ? kExitBadRequest : kExitFailed);
  }
  std::printf("%s: %s of %s\n", path.c_str(),
              PluralText(saved->model.variables().element_count(), "parameter").c_str(), saved->path.c_str());
  std::fputs(NotesText(notes, (*format)->use(*saved, path)).c_str(), stdout);
  return kExitSuccess;
}

}  // namespace

Command ExportCommand() {
  return {
      {.verb = "export",
       .summary = "Writes a checkpoint's weights for other programs.",
       .description =
           "Writes the parameters and moving statistics of a checkpoint. FILE.safetensors has PyTorch's "
           "names and layouts: model.load_state_dict(safetensors.torch.load_file(FILE)) reads this file, if "
           "the model's modules have the names of the layers. The layers of resnet and vgg have "
           "torchvision's names. The input of this model must be standardised pixels, (pixel / 255 - mean) "
           "/ deviation. FILE.onnx has the whole network, for onnxruntime and other programs. The input of "
           "this network is float32 [N, channels, height, width]: the pixels as they are in the data, from "
           "0 to 255, which the network standardises itself. The output is the logits. Export prints input, "
           "order of axes, mean, deviation, the method of resizing and names of classes, and also writes "
           "all this into the file's metadata.",
       .flags = {{.name = "checkpoint",
                  .value = "DIR",
                  .help = "A checkpoint (RUN_DIR/checkpoints/step-N), or a run directory, whose newest "
                          "checkpoint is used.",
                  .required = true},
                 {.name = "out",
                  .value = "FILE",
                  .help = "The file to write; its ending says the format: .safetensors or .onnx.",
                  .required = true}},
       .examples = {"tethys export --checkpoint=runs/a --out=weights.safetensors",
                    "tethys export --checkpoint=runs/a --out=model.onnx"}},
      Export};
}

}  // namespace tethys
