// The ways in which the computation of a layer reads and overwrites the layer's inputs, output and gradients.
#ifndef TETHYS_RUNTIME_NN_LAYERS_OPERAND_USE_H_
#define TETHYS_RUNTIME_NN_LAYERS_OPERAND_USE_H_

namespace tethys {

struct OperandUse {
  bool backward_reads_inputs = false;
  bool backward_reads_output = false;
  bool repeatable = false;        // Forward is cheap, and computes the same bits again from the same inputs.
  bool overwrites_input = false;  // Forward may write its output over its first input if the sizes are equal.
  // Backward may write the gradient of its only input over the gradient of the output.
  bool overwrites_gradient = false;
  // The gradient of each input equals the gradient of the output, so Backward does nothing.
  bool passes_gradient = false;
  bool applies_relu = false;  // Forward can apply a relu to its output (CompileArguments::relu).
  bool is_relu = false;       // Forward applies a relu to the only input.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_OPERAND_USE_H_
