// Loss, input conversion, pooling, SGD and random numbers: our own kernels.
#include <algorithm>
#include <utility>

#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/primitives.h"
#include "runtime/device/cuda/stream.h"

namespace tethys::cuda {
namespace {

// The kernels read and write these structs as arrays of numbers.
static_assert(sizeof(LossResult) == 3 * sizeof(double));
static_assert(sizeof(SgdRates) == 2 * sizeof(float));
static_assert(sizeof(RandomPosition) == 2 * sizeof(uint64_t));

class SoftmaxCrossEntropyLoss final : public SoftmaxCrossEntropyPrimitive {
 public:
  SoftmaxCrossEntropyLoss(int64_t rows, int64_t classes, std::unique_ptr<Buffer> row_results)
      : rows_(rows), classes_(classes), row_results_(std::move(row_results)) {}

  absl::Status Run(Stream& stream, const float* logits, const int32_t* labels, const float* weights,
                   float* dlogits, LossResult* result) override {
    TETHYS_RETURN_IF_CUDA_ERROR(SoftmaxCrossEntropy(Handle(stream), rows_, classes_, logits, labels, weights,
                                                    dlogits, static_cast<double*>(row_results_->data()),
                                                    reinterpret_cast<double*>(result)));
    return absl::OkStatus();
  }

 private:
  const int64_t rows_;
  const int64_t classes_;
  const std::unique_ptr<Buffer> row_results_;  // [rows, 3]
};

class InputConversion final : public InputConversionPrimitive {
 public:
  // Computes (x / 255 - mean) / deviation as one multiplication and one addition.
  InputConversion(int64_t count, float mean, float deviation)
      : count_(count),
        scale_(static_cast<float>(1.0 / (255.0 * deviation))),
        shift_(static_cast<float>(-static_cast<double>(mean) / deviation)) {}

  absl::Status Run(Stream& stream, const uint8_t* in, float* out) override {
    TETHYS_RETURN_IF_CUDA_ERROR(ConvertBytes(Handle(stream), count_, scale_, shift_, in, out));
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const float scale_;
  const float shift_;
};

class MaxPooling final : public MaxPoolingPrimitive {
 public:
  explicit MaxPooling(const PoolingArguments& arguments) : arguments_(arguments) {}

  absl::Status Forward(Stream& stream, const float* x, float* y) override {
    TETHYS_RETURN_IF_CUDA_ERROR(MaxPoolingForward(Handle(stream), arguments_, x, y));
    return absl::OkStatus();
  }
  absl::Status Backward(Stream& stream, const float* x, const float* y, const float* dy, float* dx) override {
    TETHYS_RETURN_IF_CUDA_ERROR(MaxPoolingBackward(Handle(stream), arguments_, x, y, dy, dx));
    return absl::OkStatus();
  }
  int64_t workspace_bytes() const override { return 0; }

 private:
  const PoolingArguments arguments_;
};

class SgdUpdate final : public SgdPrimitive {
 public:
  SgdUpdate(float momentum, int64_t tile_count, std::unique_ptr<Buffer> tiles)
      : momentum_(momentum), tile_count_(tile_count), tiles_(std::move(tiles)) {}

  absl::Status Run(Stream& stream, const SgdStep& step, float* parameters, const float* gradient_sums,
                   float* velocity, int32_t* bad) override {
    const SgdArguments arguments = {.rates = reinterpret_cast<const float*>(step.rates),
                                    .momentum = momentum_,
                                    .part_begin = step.part.begin,
                                    .part_end = step.part.end(),
                                    .check_finite = step.check_finite};
    TETHYS_RETURN_IF_CUDA_ERROR(Sgd(Handle(stream), arguments, static_cast<const SgdTile*>(tiles_->data()),
                                    tile_count_, parameters, gradient_sums, velocity, bad));
    return absl::OkStatus();
  }

 private:
  const float momentum_;
  const int64_t tile_count_;
  const std::unique_ptr<Buffer> tiles_;
};

class UniformNumbers final : public UniformPrimitive {
 public:
  UniformNumbers(int64_t count, PhiloxKey key) : count_(count), key_(key) {}

  absl::Status Run(Stream& stream, const RandomPosition* position, float* out) override {
    TETHYS_RETURN_IF_CUDA_ERROR(
        Uniform(Handle(stream), key_, reinterpret_cast<const uint64_t*>(position), count_, out));
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const PhiloxKey key_;
};

std::vector<SgdTile> CutIntoTiles(const std::vector<UpdateRegion>& regions) {
  std::vector<SgdTile> tiles;
  for (const UpdateRegion& region : regions) {
    for (int64_t begin = region.range.begin; begin < region.range.end(); begin += kSgdTileElements) {
      const int64_t count = std::min<int64_t>(kSgdTileElements, region.range.end() - begin);
      tiles.push_back({begin, static_cast<int32_t>(count), region.weight_decay});
    }
  }
  return tiles;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyPrimitive>> CreateSoftmaxCrossEntropy(
    const Libraries& libraries, int64_t rows, int64_t classes) {
  const int64_t bytes = rows * static_cast<int64_t>(sizeof(LossResult));
  TETHYS_ASSIGN_OR_RETURN(auto row_results, libraries.memory->Allocate(bytes, MemoryKind::kDevice));
  return std::make_unique<SoftmaxCrossEntropyLoss>(rows, classes, std::move(row_results));
}

absl::StatusOr<std::unique_ptr<InputConversionPrimitive>> CreateInputConversion(int64_t count, float mean,
                                                                                float deviation) {
  return std::make_unique<InputConversion>(count, mean, deviation);
}

absl::StatusOr<std::unique_ptr<MaxPoolingPrimitive>> CreateMaxPooling(const MaxPoolingShape& shape) {
  const Window::Axis& h = shape.window.height;
  const Window::Axis& w = shape.window.width;
  const ImageShape out = shape.output();
  return std::make_unique<MaxPooling>(PoolingArguments{.rows = shape.rows,
                                                       .height = shape.in.height,
                                                       .width = shape.in.width,
                                                       .channels = shape.in.channels,
                                                       .out_height = out.height,
                                                       .out_width = out.width,
                                                       .size_h = h.size,
                                                       .size_w = w.size,
                                                       .stride_h = h.stride,
                                                       .stride_w = w.stride,
                                                       .before_h = h.before,
                                                       .before_w = w.before});
}

absl::StatusOr<std::unique_ptr<SgdPrimitive>> CreateSgd(const Libraries& libraries,
                                                        const std::vector<UpdateRegion>& regions,
                                                        float momentum) {
  const std::vector<SgdTile> tiles = CutIntoTiles(regions);
  const auto bytes = static_cast<int64_t>(tiles.size() * sizeof(SgdTile));
  TETHYS_ASSIGN_OR_RETURN(auto on_device, libraries.memory->Allocate(bytes, MemoryKind::kDevice));
  TETHYS_RETURN_IF_CUDA_ERROR(cudaMemcpy(on_device->data(), tiles.data(), bytes, cudaMemcpyHostToDevice));
  TETHYS_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());  // Our streams are not ordered after that copy.
  return std::make_unique<SgdUpdate>(momentum, static_cast<int64_t>(tiles.size()), std::move(on_device));
}

absl::StatusOr<std::unique_ptr<UniformPrimitive>> CreateUniform(int64_t count, PhiloxKey key) {
  return std::make_unique<UniformNumbers>(count, key);
}

}  // namespace tethys::cuda
