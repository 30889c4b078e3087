// The computation of a layer of a model, with known shapes. The kind of the layer (layer_kind.h) makes an
// Operation from the description of the layer in the job. A plan (plan.h) compiles the Operation for a
// device.
#ifndef TETHYS_RUNTIME_NN_LAYERS_OPERATION_H_
#define TETHYS_RUNTIME_NN_LAYERS_OPERATION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/nn/layers/operand_use.h"
#include "runtime/nn/layers/step_numbers.h"

namespace tethys {

// The tensors of a layer's forward pass. Each is [rows, elements], in the layout of the layer's primitive,
// and of the device's activation type.
struct ForwardTensors {
  absl::Span<const void* const> x = {};  // The inputs.
  void* y = nullptr;                     // The output, to be overwritten.
  // One weight for each row: [rows]. Weight 0 marks padding, which comes after the batch's samples.
  const float* row_weights = nullptr;
};

// The tensors of a layer's backward pass, of the shape and type of the tensors of the forward pass.
struct BackwardTensors {
  absl::Span<const void* const> x = {};  // The inputs.
  const void* y = nullptr;               // The output.
  void* dy = nullptr;                    // The gradient of the output; may be changed.
  // The gradients of the inputs, to be overwritten; null: that gradient is not needed.
  absl::Span<void* const> dx = {};
};

// A layer of a plan: its primitives, and the addresses of its variables. Used by the plan's thread.
class CompiledLayer {
 public:
  virtual ~CompiledLayer() = default;
  virtual absl::Status Forward(Stream& stream, const ForwardTensors& tensors) = 0;
  // Computes the output of the last Forward again, to the same bits, from the same inputs.
  virtual absl::Status Repeat(Stream& stream, const ForwardTensors& tensors) {
    return Forward(stream, tensors);
  }
  // Computes the gradients of the inputs, and overwrites the gradients of the layer's variables.
  virtual absl::Status Backward(Stream& stream, const BackwardTensors& tensors) = 0;
  // Updates moving statistics from the last Forward, as the contract of BatchNormalisationPrimitive says: the
  // layer's own if `offset` is 0, otherwise those that lie `offset` floats behind them.
  virtual absl::Status UpdateStatistics(Stream& stream, const int32_t* refused, int64_t offset) {
    (void)stream, (void)refused, (void)offset;
    return absl::OkStatus();
  }
  // Bytes of device memory that the layer's primitives hold.
  virtual int64_t workspace_bytes() const { return 0; }
  virtual std::string Describe() const { return ""; }  // For logs: "forward sgemm, ...".
};

// The addresses of a layer's variable on the device. `gradient_sums` is null in a plan that only evaluates.
struct VariableMemory {
  const float* values = nullptr;
  float* gradient_sums = nullptr;
};

// Arguments of Operation::Compile.
struct CompileArguments {
  Device& device;
  int64_t rows = 0;
  bool trains = false;
  // The number of parts of a batch that are normalised separately (BatchNormalisationShape::groups).
  int64_t groups = 1;
  // Sums statistics over the workers, so that the batches of all workers are normalised as one batch. Null:
  // the batch of this worker is normalised alone.
  StreamReducer* sums = nullptr;
  uint64_t seed = 0;  // Seed of random numbers.
  // The numbers of the running step, on the device. Null in a plan that evaluates.
  const StepNumbers* step = nullptr;
  bool later_part = false;  // True: the layer runs on a micro-batch that is not the first of its step.
  // True: Forward applies a relu to the output. Allowed only if OperandUse::applies_relu is true.
  bool relu = false;
  // Variables and statistics are in the order in which the kind added them.
  absl::Span<const VariableMemory> variables = {};
  absl::Span<float* const> statistics = {};
};

// Device memory that a layer's primitives take on a GPU beyond inputs and outputs, for forecasts.
struct GpuNeeds {
  int64_t most_workspace = 0;         // Workspace in bytes that the layer does not share; an upper bound.
  int64_t most_shared_workspace = 0;  // Workspace in bytes that all layers share; an upper bound.
  bool copies_weights = false;  // True: the layer copies weights to bfloat16 if activations are bfloat16.
};

// The computation of a layer, independent of a device. Immutable, thread-safe.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual OperandUse operand_use() const = 0;
  // `groups` has the meaning of CompileArguments::groups.
  virtual GpuNeeds gpu_needs(int64_t groups) const {
    (void)groups;
    return {};
  }
  // The number of multiplications, each followed by an addition, in the forward pass of one sample; 0 unless
  // the layer has weights.
  virtual int64_t multiply_adds() const { return 0; }
  // True if the layer uses StepNumbers. Such a layer is compiled once for each micro-batch.
  virtual bool uses_step_numbers() const { return false; }
  // The fewest samples of a batch (or of one of its groups) from which the layer can learn.
  virtual int64_t least_samples() const { return 1; }
  virtual std::string Describe() const = 0;  // For logs: "dense 784 x 128 relu".
  virtual absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_OPERATION_H_
