#include <utility>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

// The kernels write this struct as an array of numbers.
static_assert(sizeof(LossResult) == kLossResults * sizeof(double));

// `Shape` is the shape of a loss; `kEnqueue` enqueues the kernels of that loss.
template <typename Shape, auto kEnqueue>
class Loss final : public LossPrimitive {
 public:
  Loss(ElementType type, const Shape& shape, std::unique_ptr<Buffer> results)
      : type_(type), shape_(shape), results_(std::move(results)) {}

  absl::Status Run(Stream& stream, const LossTensors& tensors) override {
    TETHYS_RETURN_IF_CUDA_ERROR(
        kEnqueue(Handle(stream), type_, shape_, tensors, static_cast<double*>(results_->data())));
    return absl::OkStatus();
  }

 private:
  const ElementType type_;
  const Shape shape_;
  const std::unique_ptr<Buffer> results_;  // [positions or rows, kLossResults]
};

absl::StatusOr<std::unique_ptr<Buffer>> AllocateResults(const Libraries& libraries, int64_t parts) {
  return libraries.memory->Allocate(parts * static_cast<int64_t>(sizeof(LossResult)), MemoryKind::kDevice);
}

}  // namespace

Created<SoftmaxCrossEntropyShape> Create(const SoftmaxCrossEntropyShape& shape, const Libraries& libraries) {
  TETHYS_ASSIGN_OR_RETURN(auto results, AllocateResults(libraries, shape.points()));
  return std::make_unique<Loss<SoftmaxCrossEntropyShape, SoftmaxCrossEntropy>>(libraries.activations, shape,
                                                                               std::move(results));
}

Created<MeanSquaredErrorShape> Create(const MeanSquaredErrorShape& shape, const Libraries& libraries) {
  TETHYS_ASSIGN_OR_RETURN(auto results, AllocateResults(libraries, shape.rows));
  return std::make_unique<Loss<MeanSquaredErrorShape, MeanSquaredError>>(libraries.activations, shape,
                                                                         std::move(results));
}

}  // namespace tethys::cuda
