// Convolutions of few channels, by our own kernels. For lenet's gradients in float32 at batch 1024, cuDNN
// takes 2.6 times (data) and 14 times (filters) as long on an H100. Filters and products are float32 in every
// precision.
#include <algorithm>

#include "runtime/device/cuda/convolution_plan.h"
#include "runtime/device/cuda/cuda_status.h"
#include "runtime/device/cuda/elements.h"
#include "runtime/device/cuda/grid.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/cuda/window_axes.h"

namespace tethys::cuda {
namespace {

constexpr int kMostChannels = 16;
constexpr int kGroup = 8;  // Channels that a thread computes at once.
constexpr int kPack = 4;
using Factors = Pack<float, kPack>;
// The most packs of all filters together, which must fit into shared memory.
constexpr int kMostPacks = 2048;
constexpr int64_t kMostStrips = 512;    // The most strips of lines whose products are summed in parallel.
constexpr int kMostColumns = kThreads;  // The most columns of a block of SmallFiltersKernel.

struct SmallConvolution {
  WindowAxis h, w;
  int rows, in, out;  // The numbers of images and of channels.

  __host__ __device__ int taps() const { return h.size * w.size; }
};

__host__ __device__ constexpr int GroupsOf(int channels) { return (channels + kGroup - 1) / kGroup; }

// Computes outputs from images or, with kData, gradients of images from gradients of outputs. A thread
// computes a group of channels of one pixel of the target.
template <typename T, bool kData>
__global__ void SmallConvolutionKernel(SmallConvolution c, const float* filters, const T* source, T* target) {
  // The filters as [taps, sources, groups x kGroup]; factors of channels after the last target are zero.
  __shared__ Factors factors[kMostPacks];
  const int sources = kData ? c.out : c.in, targets = kData ? c.in : c.out;
  const int groups = GroupsOf(targets), packs = groups * (kGroup / kPack), taps = c.taps();
  for (int i = threadIdx.x; i < taps * sources * packs; i += kThreads) {
    const int first = i % packs * kPack, tap = i / packs / sources, s = i / packs % sources;
    for (int k = 0; k < kPack; ++k) {
      const int t = first + k;
      const int at = kData ? (s * taps + tap) * targets + t : (t * taps + tap) * sources + s;
      factors[i].Set(k, t < targets ? filters[at] : 0.0f);
    }
  }
  __syncthreads();
  const int height = kData ? c.h.in : c.h.out, width = kData ? c.w.in : c.w.out;
  const int source_height = kData ? c.h.out : c.h.in, source_width = kData ? c.w.out : c.w.in;
  const int64_t count = static_cast<int64_t>(c.rows) * height * width * groups;
  for (int64_t i = FirstIndex(); i < count; i += GridSize()) {
    const auto place = static_cast<unsigned>(i);
    const unsigned pixel = place / groups, line = pixel / width;
    const int group = static_cast<int>(place % groups), row = static_cast<int>(line / height);
    const int h = static_cast<int>(line % height), w = static_cast<int>(pixel % width);
    float sums[kGroup] = {};
    for (int tap_h = 0; tap_h < c.h.size; ++tap_h) {
      const int at_h = kData ? c.h.Over(h, tap_h) : c.h.Under(h, tap_h);
      if (at_h < 0 || at_h >= source_height) continue;
      for (int tap_w = 0; tap_w < c.w.size; ++tap_w) {
        const int at_w = kData ? c.w.Over(w, tap_w) : c.w.Under(w, tap_w);
        if (at_w < 0 || at_w >= source_width) continue;
        const T* const values =
            source + ((static_cast<int64_t>(row) * source_height + at_h) * source_width + at_w) * sources;
        const Factors* factor =
            factors + (tap_h * c.w.size + tap_w) * sources * packs + group * (kGroup / kPack);
        for (int s = 0; s < sources; ++s, factor += packs) {
          const float value = Widen(values[s]);
          const Factors first = factor[0], second = factor[1];
          for (int k = 0; k < kPack; ++k) {
            sums[k] += value * first[k];
            sums[kPack + k] += value * second[k];
          }
        }
      }
    }
    T* const to = target + static_cast<int64_t>(pixel) * targets;
    for (int k = 0; k < kGroup; ++k) {
      if (group * kGroup + k < targets) to[group * kGroup + k] = Round<T>(sums[k]);
    }
  }
}

struct GroupSums {
  __device__ void Merge(const GroupSums& part) {
    for (int k = 0; k < kGroup; ++k) sums[k] += part.sums[k];
  }

  float sums[kGroup];
};

// Block (x, y) adds up the products of strip y, a range of lines of the outputs, and writes them to sums
// [strips, out, taps, in]. A column of threads handles one tap, one channel of the images and one group of
// channels of the outputs.
template <typename T>
__global__ void SmallFiltersKernel(SmallConvolution c, int64_t strip, const T* x, const T* dy, float* sums) {
  const int taps = c.taps(), column = static_cast<int>(Column());
  const bool is_column = column < taps * c.in * GroupsOf(c.out);
  const int channel = column % c.in, tap = column / c.in % taps, first = column / c.in / taps * kGroup;
  const int tap_h = tap / c.w.size, tap_w = tap - tap_h * c.w.size;
  const int64_t lines = static_cast<int64_t>(c.rows) * c.h.out;
  const int64_t begin = blockIdx.y * strip, end = begin + strip < lines ? begin + strip : lines;
  GroupSums own = {};
  for (int64_t line = begin; is_column && line < end; ++line) {
    const int h = c.h.Under(static_cast<int>(line % c.h.out), tap_h);
    if (h < 0 || h >= c.h.in) continue;
    const T* const image = x + (line / c.h.out * c.h.in + h) * c.w.in * c.in + channel;
    const T* const gradients = dy + line * c.w.out * c.out + first;
    for (int out_w = threadIdx.y; out_w < c.w.out; out_w += blockDim.y) {
      const int w = c.w.Under(out_w, tap_w);
      if (w < 0 || w >= c.w.in) continue;
      const float value = Widen(image[w * c.in]);
      for (int k = 0; k < kGroup; ++k) {
        if (first + k < c.out) own.sums[k] += value * Widen(gradients[out_w * c.out + k]);
      }
    }
  }
  MergeOverRows(own);
  if (threadIdx.y != 0 || !is_column) return;
  for (int k = 0; k < kGroup && first + k < c.out; ++k) {
    sums[((static_cast<int64_t>(blockIdx.y) * c.out + first + k) * taps + tap) * c.in + channel] =
        own.sums[k];
  }
}

class SmallConvolutionPlan final : public ConvolutionPlan {
 public:
  SmallConvolutionPlan(ElementType type, ConvolutionPass pass, const ConvolutionShape& shape)
      : type_(type),
        pass_(pass),
        shape_{WindowAxisOf(shape.window.height, shape.in.height),
               WindowAxisOf(shape.window.width, shape.in.width), static_cast<int>(shape.rows),
               static_cast<int>(shape.in.channels), static_cast<int>(shape.out)},
        filters_(shape.filters()) {
    const int64_t lines = shape.rows * shape_.h.out;
    strip_ = Divide(lines, lines < kMostStrips ? lines : kMostStrips);
    strips_ = Divide(lines, strip_);
  }

  absl::Status Run(Stream& stream, const void* images, const void* filters, const void* outputs,
                   void* workspace) override {
    const auto* const factors = static_cast<const float*>(filters);
    TETHYS_RETURN_IF_CUDA_ERROR(ForType(type_, [&](auto element) {
      using T = decltype(element);
      auto* const x = static_cast<T*>(const_cast<void*>(images));
      auto* const y = static_cast<T*>(const_cast<void*>(outputs));
      if (pass_ == ConvolutionPass::kFilters) {
        return SumProducts(Handle(stream), x, y, const_cast<float*>(factors), static_cast<float*>(workspace));
      }
      if (pass_ == ConvolutionPass::kForward) {
        const int64_t threads = Pixels(shape_.h.out, shape_.w.out) * GroupsOf(shape_.out);
        return Launch(SmallConvolutionKernel<T, false>, BlocksFor(threads), kThreads, Handle(stream), shape_,
                      factors, x, y);
      }
      const int64_t threads = Pixels(shape_.h.in, shape_.w.in) * GroupsOf(shape_.in);
      return Launch(SmallConvolutionKernel<T, true>, BlocksFor(threads), kThreads, Handle(stream), shape_,
                    factors, y, x);
    }));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    if (pass_ != ConvolutionPass::kFilters) return 0;
    return (strips_ * filters_ + ColumnSumScratch(strips_, filters_)) * static_cast<int64_t>(sizeof(float));
  }
  bool filters_in_float32() const override { return true; }
  std::string Describe() const override { return "own kernel"; }

 private:
  int64_t Pixels(int height, int width) const { return static_cast<int64_t>(shape_.rows) * height * width; }

  // `sums` is scratch memory.
  template <typename T>
  cudaError_t SumProducts(cudaStream_t stream, const T* x, const T* dy, float* filters, float* sums) {
    const int64_t columns = static_cast<int64_t>(shape_.taps()) * shape_.in * GroupsOf(shape_.out);
    const int64_t blocks = Divide(columns, kMostColumns), width = Divide(columns, blocks);
    const cudaError_t launched =
        Launch(SmallFiltersKernel<T>, dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(strips_)),
               dim3(static_cast<unsigned>(width), static_cast<unsigned>(kThreads / width)), stream, shape_,
               strip_, x, dy, sums);
    if (launched != cudaSuccess) return launched;
    return MaskAndSumColumns(stream, ElementType::kFloat32, strips_, filters_, nullptr, sums, filters,
                             sums + strips_ * filters_);
  }

  const ElementType type_;
  const ConvolutionPass pass_;
  const SmallConvolution shape_;
  const int64_t filters_;           // Elements of all filters.
  int64_t strip_ = 0, strips_ = 0;  // The number of lines of a strip, and the number of strips.
};

}  // namespace

bool IsSmall(const ConvolutionShape& shape) {
  if (shape.groups != 1 || shape.in.channels > kMostChannels || shape.out > kMostChannels) return false;
  constexpr int64_t kMost = int64_t{1} << 31;  // Groups of pixels are counted in 32 bits.
  const ImageShape out = shape.output();
  const int64_t taps = shape.window.height.size * shape.window.width.size;
  return taps * kMostChannels * kMostChannels <= kMostPacks * kPack &&
         2 * shape.rows * std::max(out.height * out.width, shape.in.height * shape.in.width) < kMost;
}

std::unique_ptr<ConvolutionPlan> CreateSmall(ElementType type, ConvolutionPass pass,
                                             const ConvolutionShape& shape) {
  return std::make_unique<SmallConvolutionPlan>(type, pass, shape);
}

}  // namespace tethys::cuda
