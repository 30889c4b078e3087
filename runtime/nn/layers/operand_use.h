// What the computation of a layer does with its operands, as far as it matters for memory.
#ifndef TETHYS_RUNTIME_NN_LAYERS_OPERAND_USE_H_
#define TETHYS_RUNTIME_NN_LAYERS_OPERAND_USE_H_

namespace tethys {

struct OperandUse {
  bool backward_reads_inputs = false;
  bool backward_reads_output = false;
  bool repeatable = false;           // Forward is cheap, and gives the same bits again from the same inputs.
  bool overwrites_input = false;     // Forward may write its output over its first input, of the same size.
  bool overwrites_gradient = false;  // Backward may write the gradient of its only input over the output's.
  bool passes_gradient =
      false;                  // The gradient of each input equals that of the output; Backward does nothing.
  bool applies_relu = false;  // Forward can apply a relu to its output (CompileArguments::relu).
  bool is_relu = false;       // Forward is a relu of the only input.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_NN_LAYERS_OPERAND_USE_H_
