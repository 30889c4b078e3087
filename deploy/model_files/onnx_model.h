// A trained model as an ONNX graph, for onnxruntime and other programs. The graph's input "input" is float32
// [N, channels, height, width] with the pixels as they are in the data, 0 to 255 (the first nodes of the
// graph standardise the pixels); samples of one axis, or of more than three, keep their axes. The graph's
// output "logits" is [N, classes] or, for maps of labels, [N, classes, height, width]. Dropout is left out,
// and batch normalisation uses the moving statistics. Operators are those of opset 13,
// https://onnx.ai/onnx/operators. Pure, but for the calls of `read`.
#ifndef TETHYS_DEPLOY_MODEL_FILES_ONNX_MODEL_H_
#define TETHYS_DEPLOY_MODEL_FILES_ONNX_MODEL_H_

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "deploy/model_files/model_notes.h"
#include "proto/job.pb.h"
#include "proto/onnx.pb.h"
#include "runtime/nn/model.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// Writes the elements of a variable or, if `statistic`, of a moving statistic to `values`.
using ReadVariable =
    absl::FunctionRef<absl::Status(const Variable& variable, bool statistic, absl::Span<float> values)>;

// Makes the ONNX model of `model`, which `config` must describe. InvalidArgument: a layer has a kind or an
// activation that cannot be written to ONNX; the message names the layer. ResourceExhausted: the model has
// more than 2 GB, the limit of the format. Otherwise fails as `read` does.
absl::StatusOr<proto::onnx::ModelProto> MakeOnnxModel(const proto::Model& config, const Model& model,
                                                      const InputScaling& scaling, ReadVariable read);

// Adds the notes to the model as metadata and documentation; the note on values documents the input.
void AddNotes(const ModelNotes& notes, proto::onnx::ModelProto& model);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_MODEL_FILES_ONNX_MODEL_H_
