#include <algorithm>
#include <utility>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/workspace_bounds.h"

namespace tethys::cuda {
namespace {

// Tiles have at least this many positions, unless a group has fewer positions.
constexpr int64_t kLeastTile = 32;

int64_t TilesOf(const BatchNormalisationShape& shape) {
  const int64_t positions = std::max<int64_t>(1, shape.rows / shape.groups) * shape.positions;
  const int64_t most = kNormalisationSums / (shape.groups * shape.channels);
  return std::max<int64_t>(1, std::min(positions / kLeastTile, most));
}

// Cuts the primitive's memory into arrays. The arrays with the widest elements must be cut first, because Cut
// does not align.
class Cutter {
 public:
  explicit Cutter(void* memory) : next_(static_cast<char*>(memory)) {}

  template <typename T>
  T* Cut(int64_t count) {
    T* const array = reinterpret_cast<T*>(next_);
    next_ += count * static_cast<int64_t>(sizeof(T));
    return array;
  }

 private:
  char* next_;
};

class BatchNormalisation final : public BatchNormalisationPrimitive {
 public:
  BatchNormalisation(const NormalisationArguments& arguments, const BatchNormalisationShape& shape,
                     std::unique_ptr<Buffer> memory)
      : arguments_(arguments),
        worker_sums_(shape.sums),
        decay_(shape.decay),
        later_part_(shape.later_part),
        memory_(std::move(memory)) {}

  absl::Status Forward(Stream& stream, const void* x, const float* weights, const ScaleAndOffset& variables,
                       void* y) override {
    if (worker_sums_ != nullptr) return ForwardOfWorkers(stream, x, weights, variables, y);
    TETHYS_RETURN_IF_CUDA_ERROR(BatchNormalisationForward(Handle(stream), arguments_, x, weights,
                                                          variables.scale, variables.offset, y));
    return absl::OkStatus();
  }
  absl::Status Repeat(Stream& stream, const void* x, const ScaleAndOffset& variables, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(
        NormaliseAgain(Handle(stream), arguments_, x, variables.scale, variables.offset, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const void* x, const ScaleAndOffset& variables, const void* dy,
                        void* dx, float* dscale, float* doffset) override {
    if (worker_sums_ != nullptr && dx != nullptr) {
      TETHYS_RETURN_IF_CUDA_ERROR(OwnGradients(Handle(stream), arguments_, x, variables.scale,
                                               variables.offset, dy, dscale, doffset));
      TETHYS_RETURN_IF_ERROR(
          worker_sums_->AllReduce(stream, arguments_.worker_gradients, 2 * arguments_.channels));
      TETHYS_RETURN_IF_CUDA_ERROR(
          GradientByWorkers(Handle(stream), arguments_, x, variables.scale, variables.offset, dy, dx));
      return absl::OkStatus();
    }
    TETHYS_RETURN_IF_CUDA_ERROR(BatchNormalisationBackward(Handle(stream), arguments_, x, variables.scale,
                                                           variables.offset, dy, dx, dscale, doffset));
    return absl::OkStatus();
  }
  absl::Status Infer(Stream& stream, const void* x, const float* mean, const float* variance,
                     const ScaleAndOffset& variables, void* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(BatchNormalisationInfer(Handle(stream), arguments_, x, mean, variance,
                                                        variables.scale, variables.offset, y));
    return absl::OkStatus();
  }
  absl::Status UpdateMovingStatistics(Stream& stream, const float* share, const int32_t* refused, float* mean,
                                      float* variance) override {
    TETHYS_RETURN_IF_CUDA_ERROR(cuda::UpdateMovingStatistics(Handle(stream), arguments_, decay_, later_part_,
                                                             share, refused, mean, variance));
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return memory_->bytes(); }

 private:
  absl::Status ForwardOfWorkers(Stream& stream, const void* x, const float* weights,
                                const ScaleAndOffset& variables, void* y) {
    const int64_t channels = arguments_.channels;
    TETHYS_RETURN_IF_CUDA_ERROR(OwnMeans(Handle(stream), arguments_, x, weights));
    TETHYS_RETURN_IF_ERROR(worker_sums_->AllReduce(stream, arguments_.worker_moments, channels + 1));
    TETHYS_RETURN_IF_CUDA_ERROR(OwnSquares(Handle(stream), arguments_));
    TETHYS_RETURN_IF_ERROR(worker_sums_->AllReduce(stream, arguments_.worker_moments, channels));
    TETHYS_RETURN_IF_CUDA_ERROR(
        NormaliseByWorkers(Handle(stream), arguments_, x, variables.scale, variables.offset, y));
    return absl::OkStatus();
  }

  const NormalisationArguments arguments_;
  StreamReducer* const worker_sums_;  // Null: statistics are over this worker's batch alone.
  const float decay_;
  const bool later_part_;
  const std::unique_ptr<Buffer> memory_;
};

}  // namespace

Created<BatchNormalisationShape> Create(const BatchNormalisationShape& shape, const Libraries& libraries) {
  const int64_t tiles = TilesOf(shape), values = shape.groups * shape.channels;
  constexpr int64_t kDoubles = 2, kFloats = 5;
  const int64_t exchanged = shape.sums == nullptr ? 0 : 3 * shape.channels + 1;
  const int64_t bytes = kDoubles * tiles * values * static_cast<int64_t>(sizeof(double)) +
                        (shape.groups + 1) * static_cast<int64_t>(sizeof(int64_t)) +
                        (kFloats * values + exchanged) * static_cast<int64_t>(sizeof(float));
  TETHYS_ASSIGN_OR_RETURN(auto memory, libraries.memory->Allocate(bytes, MemoryKind::kDevice));
  Cutter cutter(memory->data());
  NormalisationArguments arguments = {.type = libraries.activations,
                                      .rows = shape.rows,
                                      .positions = shape.positions,
                                      .channels = shape.channels,
                                      .groups = shape.groups,
                                      .tiles = tiles,
                                      .epsilon = shape.epsilon,
                                      .relu = shape.relu,
                                      .tile_sums = cutter.Cut<double>(tiles * values),
                                      .tile_products = cutter.Cut<double>(tiles * values),
                                      .begins = cutter.Cut<int64_t>(shape.groups + 1),
                                      .means = cutter.Cut<float>(values),
                                      .variances = cutter.Cut<float>(values),
                                      .inverse_deviations = cutter.Cut<float>(values),
                                      .mean_gradients = cutter.Cut<float>(values),
                                      .slopes = cutter.Cut<float>(values),
                                      .worker_moments = nullptr,
                                      .worker_gradients = nullptr};
  if (shape.sums != nullptr) {
    arguments.worker_moments = cutter.Cut<float>(shape.channels + 1);
    arguments.worker_gradients = cutter.Cut<float>(2 * shape.channels);
  }
  return std::make_unique<BatchNormalisation>(arguments, shape, std::move(memory));
}

}  // namespace tethys::cuda
