// Convolutions as products of matrices on cuBLASLt. The image values under each window are copied into a row
// of the matrix `columns` [pixels, taps x channels], which has a row for each pixel of the output. Filters
// are the matrix [out, taps x channels], outputs the matrix [pixels, out]. The convolution, the gradient of
// the filters and the gradient of the columns are the products
//
//   outputs = columns filters^T          filters = outputs^T columns          columns = outputs filters
//
// The gradient of an image value is the sum over its copies in the columns. (Chellapilla, Puri and Simard
// 2006, "High performance convolutional neural networks for document processing".) The columns are made for
// some images at a time, as many as memory allows. A window of one pixel without stride has the images as its
// columns.
//
// cuDNN is slower for float32 gradients in our order of channels: the engines that cudnn_graph.h allows take
// 3.7 times as long for the convolutions of ResNet50 on an H100.
#include <algorithm>
#include <numeric>

#include "runtime/device/cuda/convolution_plan.h"
#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/cuda/window_axes.h"
#include "runtime/device/workspace_bounds.h"

namespace tethys::cuda {
namespace {

// The most memory for columns, in bytes; used if a few images need more than the requested memory.
constexpr int64_t kMostColumnBytes = kMostConvolutionWorkspace - kMostDenseWorkspace;

struct Columns {
  WindowAxis h, w;
  int channels;

  __device__ int taps() const { return h.size * w.size; }
};

int64_t ImageColumnBytes(const ConvolutionShape& shape) {
  const ImageShape out = shape.output();
  return out.height * out.width * shape.filter_elements() * static_cast<int64_t>(sizeof(float));
}

// The smallest number of images whose outputs together take a multiple of 16 bytes, so that the outputs of
// the images after them are 16-byte aligned.
int64_t ImagesTogether(const ConvolutionShape& shape) {
  constexpr int64_t kFloats = kPackBytes / sizeof(float);
  return kFloats / std::gcd(kFloats, shape.output().elements());
}

// One block fills the columns of a line of windows.
template <typename P>
__global__ void LowerKernel(Columns c, int64_t lines, const P* images, P* columns) {
  const int packs = c.channels / P::kSize, count = c.w.out * c.taps() * packs;
  for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    const P* const image = images + line / c.h.out * c.h.in * c.w.in * packs;
    P* const to = columns + line * count;
    const int out_h = static_cast<int>(line % c.h.out);
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const int tap = i / packs, pack = i - tap * packs;
      const int tap_line = tap / c.w.size, out_w = tap_line / c.h.size;
      const int h = c.h.Under(out_h, tap_line - out_w * c.h.size);
      const int w = c.w.Under(out_w, tap - tap_line * c.w.size);
      P value = {};
      if (h >= 0 && h < c.h.in && w >= 0 && w < c.w.in) value = image[(h * c.w.in + w) * packs + pack];
      to[i] = value;
    }
  }
}

// One block writes a line of the images: the sums of each value's copies, in the order of taps.
template <typename P>
__global__ void AddCopiesKernel(Columns c, int64_t lines, const P* columns, P* images) {
  const int packs = c.channels / P::kSize, count = c.w.in * packs;
  for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    const int64_t row = line / c.h.in;
    const int h = static_cast<int>(line % c.h.in);
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const int w = i / packs, pack = i - w * packs;
      float sums[P::kSize] = {};
      for (int tap_h = 0; tap_h < c.h.size; ++tap_h) {
        const int out_h = c.h.Over(h, tap_h);
        for (int tap_w = 0; out_h >= 0 && tap_w < c.w.size; ++tap_w) {
          const int out_w = c.w.Over(w, tap_w);
          if (out_w < 0) continue;
          const int64_t pixel = (row * c.h.out + out_h) * c.w.out + out_w;
          const P copy = columns[(pixel * c.taps() + tap_h * c.w.size + tap_w) * packs + pack];
          for (int k = 0; k < P::kSize; ++k) sums[k] += copy[k];
        }
      }
      P result;
      for (int k = 0; k < P::kSize; ++k) result.Set(k, sums[k]);
      images[line * count + i] = result;
    }
  }
}

class LoweredConvolution final : public ConvolutionPlan {
 public:
  LoweredConvolution(ConvolutionPass pass, const ConvolutionShape& shape)
      : pass_(pass),
        rows_(shape.rows),
        columns_{WindowAxisOf(shape.window.height, shape.in.height),
                 WindowAxisOf(shape.window.width, shape.in.width), static_cast<int>(shape.in.channels)},
        width_(shape.filter_elements()),
        out_(shape.out),
        image_elements_(shape.in.elements()),
        pixels_(shape.output().height * shape.output().width),
        images_are_columns_(shape.window == Window()),
        part_rows_(shape.rows) {}

  absl::Status Initialize(const Libraries& libraries, const ConvolutionShape& shape, int64_t column_bytes) {
    if (!images_are_columns_) {
      const int64_t image_bytes = ImageColumnBytes(shape), together = ImagesTogether(shape);
      const int64_t most = std::max<int64_t>(column_bytes / image_bytes / together, 1) * together;
      const int64_t parts = Divide(rows_, most);
      part_rows_ = Divide(Divide(rows_, parts), together) * together;
      column_bytes_ = std::min(part_rows_, rows_) * image_bytes;
    }
    for (const int64_t rows : {part_rows_, LastRows()}) {
      TETHYS_ASSIGN_OR_RETURN(auto product,
                              Matmul::Create(libraries.cublas, ProductOf(rows), libraries.precision));
      (product_ == nullptr ? product_ : last_product_) = std::move(product);
    }
    return absl::OkStatus();
  }

  absl::Status Run(Stream& stream, const void* images, const void* filters, const void* outputs,
                   void* workspace) override {
    if (adds_parts()) {
      TETHYS_RETURN_IF_CUDA_ERROR(
          cudaMemsetAsync(const_cast<void*>(filters), 0, out_ * width_ * sizeof(float), Handle(stream)));
    }
    for (int64_t row = 0; row < rows_; row += part_rows_) {
      const bool is_last = row + part_rows_ >= rows_;
      TETHYS_RETURN_IF_ERROR(RunPart(stream, is_last ? *last_product_ : *product_,
                                     is_last ? LastRows() : part_rows_,
                                     Floats(images) + row * image_elements_, Floats(filters),
                                     Floats(outputs) + row * pixels_ * out_, workspace));
    }
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    return column_space() + std::max(product_->workspace_bytes(), last_product_->workspace_bytes());
  }
  std::string Describe() const override { return "cuBLASLt"; }

 private:
  static float* Floats(const void* array) { return static_cast<float*>(const_cast<void*>(array)); }

  // The number of images in the last part.
  int64_t LastRows() const { return rows_ - (Divide(rows_, part_rows_) - 1) * part_rows_; }
  // True if the gradients of filters are sums over several parts.
  bool adds_parts() const { return pass_ == ConvolutionPass::kFilters && part_rows_ < rows_; }
  // The columns' part of the workspace, in bytes.
  int64_t column_space() const {
    constexpr int64_t kAlignment = 256;
    return Divide(column_bytes_, kAlignment) * kAlignment;
  }

  MatmulShape ProductOf(int64_t rows) const {
    const int64_t pixels = rows * pixels_;
    if (pass_ == ConvolutionPass::kForward) return {.m = pixels, .n = out_, .k = width_, .transpose_b = true};
    if (pass_ == ConvolutionPass::kData) return {.m = pixels, .n = width_, .k = out_};
    return {.m = out_, .n = width_, .k = pixels, .transpose_a = true, .accumulate = adds_parts()};
  }

  absl::Status RunPart(Stream& stream, Matmul& product, int64_t rows, float* images, float* filters,
                       float* outputs, void* workspace) {
    float* const columns = images_are_columns_ ? images : static_cast<float*>(workspace);
    void* const rest = static_cast<char*>(workspace) + column_space();
    if (pass_ == ConvolutionPass::kData) {
      TETHYS_RETURN_IF_ERROR(product.Run(stream, outputs, filters, nullptr, columns, rest));
      if (images_are_columns_) return absl::OkStatus();
      return RunLines(stream, rows * columns_.h.in, columns, images,
                      [](auto pack) { return AddCopiesKernel<decltype(pack)>; });
    }
    if (!images_are_columns_) {
      TETHYS_RETURN_IF_ERROR(RunLines(stream, rows * columns_.h.out, images, columns,
                                      [](auto pack) { return LowerKernel<decltype(pack)>; }));
    }
    return pass_ == ConvolutionPass::kForward ? product.Run(stream, columns, filters, nullptr, outputs, rest)
                                              : product.Run(stream, outputs, columns, nullptr, filters, rest);
  }

  // Runs a kernel whose blocks write lines: the kernel that kernel_of returns for a pack of channels.
  template <typename KernelOf>
  absl::Status RunLines(Stream& stream, int64_t lines, const float* from, float* to,
                        const KernelOf& kernel_of) {
    const auto blocks = static_cast<unsigned>(std::min(lines, kMostBlocks));
    TETHYS_RETURN_IF_CUDA_ERROR(
        ForWidth<kPackBytes / sizeof(float)>(columns_.channels, {from, to}, [&](auto width) {
          using P = Pack<float, decltype(width)::value>;
          return Launch(kernel_of(P()), blocks, kThreads, Handle(stream), columns_, lines,
                        reinterpret_cast<const P*>(from), reinterpret_cast<P*>(to));
        }));
    return absl::OkStatus();
  }

  const ConvolutionPass pass_;
  const int64_t rows_;
  const Columns columns_;
  const int64_t width_;  // The width of a row of the columns: taps x channels.
  const int64_t out_, image_elements_, pixels_;
  const bool images_are_columns_;
  int64_t part_rows_, column_bytes_ = 0;
  std::unique_ptr<Matmul> product_, last_product_;
};

}  // namespace

bool IsLowered(ConvolutionPass pass, const ConvolutionShape& shape, Precision precision) {
  constexpr int64_t kMost = int64_t{1} << 31;  // The elements of an image are counted in 32 bits.
  const bool fits =
      shape.window == Window() || ImagesTogether(shape) * ImageColumnBytes(shape) <= kMostColumnBytes;
  if (shape.groups != 1 || !fits || shape.in.elements() >= kMost) return false;
  // Measured on an H100 (tests/bench/convolution_bench.cc): cuDNN is faster at forward passes over images of
  // few channels and, with TF32, at everything but the gradient of filters over one channel.
  constexpr int64_t kFewChannels = 32;
  if (precision == Precision::kFp32)
    return pass != ConvolutionPass::kForward || shape.in.channels >= kFewChannels;
  return precision == Precision::kTf32 && pass == ConvolutionPass::kFilters && shape.in.channels == 1;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> CreateLowered(const Libraries& libraries,
                                                               ConvolutionPass pass,
                                                               const ConvolutionShape& shape,
                                                               int64_t column_bytes) {
  auto plan = std::make_unique<LoweredConvolution>(pass, shape);
  TETHYS_RETURN_IF_ERROR(plan->Initialize(libraries, shape, column_bytes));
  return plan;
}

}  // namespace tethys::cuda
