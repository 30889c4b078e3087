// Input: a file of weights that `tethys import` reads.
#include "deploy/model_files/weights_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzWeights(absl::string_view input) {
  const InputFile file(input);
  const absl::StatusOr<TorchWeightsFile> weights = TorchWeightsFile::Open(file.path());
  if (!weights.ok()) return RequireRefusal(weights.status(), file.path());
  int64_t bytes = 0;
  for (const SafetensorsEntry& entry : weights->entries()) {
    bytes += entry.end - entry.begin;
    // Describes a variable that has the tensor's elements in the same order.
    TorchTensor tensor = {.name = entry.name, .shape = entry.shape};
    tensor.variable.range.count = ElementCount(entry.shape).value();
    tensor.axes = {tensor.variable.range.count};
    tensor.order = {0};
    const auto values = weights->Read(tensor);
    const bool narrow = entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16";
    // Reading a float64 may fail, because float32 cannot represent every float64.
    Require(values.ok() == narrow || entry.dtype == "F64", "all tensors of floats, and no others, are read");
    if (values.ok()) {
      Require(static_cast<int64_t>(values->size()) == tensor.variable.range.count, "a tensor is read whole");
    } else {
      RequireRefusal(values.status(), entry.name);
    }
    tensor.shape.push_back(2);
    Require(!weights->Read(tensor).ok(), "a tensor of another shape is refused");
  }
  Require(bytes <= static_cast<int64_t>(input.size()), "tensors are no larger than their file");
}

}  // namespace tethys::fuzz
