// Concatenation: y = [x_1, x_2, ..., x_n] along the last axis. If x_i is [a, ..., b, c_i], then y is
// [a, ..., b, c_1 + ... + c_n]. Backward cuts dy into the dx_i.
#include <utility>
#include <vector>

#include "runtime/nn/layers/kinds.h"

namespace tethys {
namespace {

// The inputs and the output as matrices whose columns are the elements of the last axis.
struct Matrices {
  int64_t rows = 0;             // Rows of the matrix of one sample.
  std::vector<int64_t> widths;  // Columns of the matrix of each input.
  int64_t width = 0;            // Columns of the matrix of the output.
};

class CompiledConcatenation final : public CompiledLayer {
 public:
  // `bytes` are the matrices, with columns and widths in bytes.
  CompiledConcatenation(Device& device, Matrices bytes) : device_(device), matrices_(std::move(bytes)) {}

  absl::Status Forward(Stream& stream, const ForwardTensors& tensors) override {
    auto* y = static_cast<char*>(tensors.y);
    for (size_t i = 0; i < tensors.x.size(); ++i) {
      const int64_t columns = matrices_.widths[i];
      TETHYS_RETURN_IF_ERROR(device_.CopyColumns(stream, {.rows = matrices_.rows,
                                                          .columns = columns,
                                                          .to = y,
                                                          .to_width = matrices_.width,
                                                          .from = tensors.x[i],
                                                          .from_width = columns}));
      y += columns;
    }
    return absl::OkStatus();
  }

  absl::Status Backward(Stream& stream, const BackwardTensors& tensors) override {
    const auto* dy = static_cast<const char*>(tensors.dy);
    for (size_t i = 0; i < tensors.dx.size(); ++i) {
      const int64_t columns = matrices_.widths[i];
      if (tensors.dx[i] != nullptr) {
        TETHYS_RETURN_IF_ERROR(device_.CopyColumns(stream, {.rows = matrices_.rows,
                                                            .columns = columns,
                                                            .to = tensors.dx[i],
                                                            .to_width = columns,
                                                            .from = dy,
                                                            .from_width = matrices_.width}));
      }
      dy += columns;
    }
    return absl::OkStatus();
  }

 private:
  Device& device_;
  const Matrices matrices_;
};

class ConcatenationOperation final : public Operation {
 public:
  explicit ConcatenationOperation(Matrices row) : row_(std::move(row)) {}

  OperandUse operand_use() const override { return {.repeatable = true}; }
  std::string Describe() const override {
    return absl::StrCat("concatenation of ", row_.widths.size(), " to ", row_.rows, " x ", row_.width);
  }
  absl::StatusOr<std::unique_ptr<CompiledLayer>> Compile(const CompileArguments& arguments) const override {
    Matrices bytes = row_;
    bytes.rows *= arguments.rows;
    const int64_t element = BytesOf(arguments.device.activation_type());
    for (int64_t& width : bytes.widths) width *= element;
    bytes.width *= element;
    return std::make_unique<CompiledConcatenation>(arguments.device, std::move(bytes));
  }

 private:
  const Matrices row_;
};

absl::StatusOr<DefinedLayer> Define(const proto::Layer&, LayerScope& scope) {
  TETHYS_RETURN_IF_ERROR(scope.CheckSeveralInputs("concatenation"));
  Shape output = scope.input();
  Matrices row;
  for (const Shape& shape : scope.inputs()) {
    const bool alike = shape.size() == output.size() && !shape.empty() &&
                       std::equal(shape.begin(), shape.end() - 1, output.begin());
    if (!alike) {
      return absl::InvalidArgumentError(
          absl::StrCat("its inputs have shapes ", ShapeText(scope.input()), " and ", ShapeText(shape),
                       ", but concatenation joins inputs that differ in the last axis only"));
    }
    row.widths.push_back(shape.back());
    row.width += shape.back();
  }
  output.back() = 1;
  TETHYS_ASSIGN_OR_RETURN(row.rows, ElementCount(output));
  output.back() = row.width;
  return DefinedLayer{.output = std::move(output),
                      .operation = std::make_shared<ConcatenationOperation>(std::move(row))};
}

std::string Text(const proto::Layer& layer) { return absl::StrCat("concatenation of ", layer.input_size()); }

}  // namespace

const LayerKind kConcatenationKind = {.most_inputs = kManyInputs, .define = Define, .text = Text};

}  // namespace tethys
