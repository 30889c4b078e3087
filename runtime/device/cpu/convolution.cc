// Convolutions on oneDNN. Images are plain NHWC for the caller and for oneDNN; filters use the blocked layout
// that oneDNN asks for, and are converted before or after each product. Blocked images would speed up some
// products, but lose as much in conversions. With plain filters oneDNN would run its reference
// loops, which are a hundred times slower.
//
// The relu and its derivative are our own loops: oneDNN's relu would turn NaN into 0, and oneDNN's backward
// passes fuse no relu. The loop of the derivative also computes the bias gradient. oneDNN 2.6 would compute
// the bias gradient together with the filter gradient, in the same order as our loop, but with vectors of
// only 16 bytes. Each of a step's executions (two forward, two or four backward) allocates a few small
// objects inside oneDNN; our own objects are prepared once. Packed filters and oneDNN's scratch memory are
// needed during a pass only, so they lie in memory that all convolutions of a device share.
#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/device/cpu/filter_packing.h"
#include "runtime/device/cpu/flush_denormals.h"
#include "runtime/device/cpu/onednn.h"
#include "runtime/device/cpu/onednn_execution.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/primitives.h"
#include "runtime/device/cpu/scratch.h"
#include "runtime/device/cpu/skipping_convolution.h"

namespace tethys::cpu {
namespace {

using dnnl::memory;

// Converts the exceptions of oneDNN's C++ interface to errors, so that no exception leaves this file.
template <typename Function>
absl::Status Catch(Function&& function) {
  try {
    function();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return absl::Status(OnednnCode(error.status),
                        absl::StrCat("oneDNN failed with status ", static_cast<int>(error.status),
                                     " in a convolution: ", error.what()));
  }
}

class Convolution final : public ConvolutionPrimitive {
 public:
  // Throws dnnl::error on failure.
  Convolution(const ConvolutionShape& shape, int threads, const Kernels& kernels,
              std::shared_ptr<Scratch> scratch);

  // The scratch memory that a pass needs, in bytes.
  int64_t scratch_bytes() const {
    return std::max({forward_memory_.bytes(), filters_memory_.bytes(), data_memory_.bytes()});
  }

  absl::Status Forward(Stream&, const void* x, const float* filters, const float* bias, void* y) override {
    const FlushDenormals flush;
    omp_set_num_threads(threads_);
    return Catch([&] {
      x_.Set(x), filters_.Set(filters), y_.Set(y);
      if (shape_.has_bias) bias_.Set(bias);
      forward_memory_.Bind(scratch_->data());
      Pack(pack_forward_);
      forward_.Run(stream_);
      if (shape_.relu) {
        ForEachPart(threads_, positions() * shape_.out, kLeastElements, [&](int64_t begin, int64_t end) {
          relu_.forward(end - begin, Floats(y) + begin, Floats(y) + begin);
        });
      }
    });
  }

  absl::Status Backward(Stream& stream, const void* x, const float* filters, const void* y, void* dy,
                        void* dx, float* dfilters, float* dbias) override {
    const FlushDenormals flush;
    const bool in_one_pass = shape_.relu && shape_.has_bias && shape_.out >= kLeastInOnePass;
    if (shape_.relu && !in_one_pass) {
      ForEachPart(threads_, positions() * shape_.out, kLeastElements, [&](int64_t begin, int64_t end) {
        relu_.backward(end - begin, Floats(y) + begin, Floats(dy) + begin, Floats(dy) + begin);
      });
    }
    if (in_one_pass) {
      SumParts(dbias, [&](int64_t begin, int64_t end, float* sums) {
        kernels_.mask_and_sum_columns(end - begin, shape_.out, Floats(y) + begin * shape_.out,
                                      Floats(dy) + begin * shape_.out, sums);
      });
    } else if (shape_.has_bias) {
      BiasGradient(dy, dbias);
    }
    TETHYS_RETURN_IF_ERROR(RunFilterGradient(x, dy, dfilters));
    return dx == nullptr ? absl::OkStatus() : DataGradient(stream, filters, dy, dx);
  }

  absl::Status FilterGradient(Stream&, const void* x, const void* dy, float* dfilters,
                              float* dbias) override {
    const FlushDenormals flush;
    if (shape_.has_bias) BiasGradient(dy, dbias);
    return RunFilterGradient(x, dy, dfilters);
  }

  absl::Status DataGradient(Stream&, const float* filters, const void* dy, void* dx) override {
    const FlushDenormals flush;
    omp_set_num_threads(threads_);
    return Catch([&] {
      dy_.Set(dy), dx_.Set(dx);
      data_memory_.Bind(scratch_->data());
      if (turns_) {
        Turn(filters);
      } else {
        filters_.Set(filters);
      }
      Pack(pack_backward_);
      backward_data_.Run(stream_);
    });
  }

  int64_t workspace_bytes() const override { return 0; }
  std::string Describe() const override { return description_; }

 private:
  struct Layouts {
    memory::desc x, filters, any_filters, bias, y;
    memory::dims strides, dilations, before, after;
  };
  Layouts MakeLayouts() const;
  void PrepareForward(const dnnl::convolution_forward::primitive_desc& forward);
  void PrepareBackwardFilters(const Layouts& layouts, const dnnl::convolution_forward::primitive_desc& hint);
  void PrepareBackwardData(const Layouts& layouts, const dnnl::convolution_forward::primitive_desc& hint);
  bool PrepareTurned(const Layouts& layouts, absl::string_view backward_algorithm);
  void Turn(const float* filters);
  // Converts between plain and packed filters: by our own loops if they support the packed order, otherwise
  // by oneDNN.
  struct Conversion {
    memory plain, packed;
    std::optional<FilterPacking> packing;
    Execution reorder;
  };
  static Conversion Convert(const memory& plain, const memory& packed, bool packs) {
    Conversion conversion = {plain, packed, FilterPacking::Of(packed.get_desc()), {}};
    const memory &from = packs ? plain : packed, &to = packs ? packed : plain;
    if (!conversion.packing.has_value()) {
      conversion.reorder = Execution(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    }
    return conversion;
  }
  void Pack(const Conversion& c) const {
    if (!c.packing.has_value()) return c.reorder.Run(stream_);
    c.packing->Pack(kernels_, threads_, Floats(c.plain.get_data_handle()),
                    Floats(c.packed.get_data_handle()));
  }
  void Unpack(const Conversion& c) const {
    if (!c.packing.has_value()) return c.reorder.Run(stream_);
    c.packing->Unpack(kernels_, threads_, Floats(c.packed.get_data_handle()),
                      Floats(c.plain.get_data_handle()));
  }
  // Memory of a pass for packed filters. Our own loops zero the part of it that the filters do not fill.
  memory AddPacked(PassMemory& pass, const memory::desc& layout) {
    return pass.Add(layout, engine_, FilterPacking::Of(layout).has_value() ? 0 : shape_.filters());
  }

  int64_t positions() const { return shape_.rows * shape_.output().height * shape_.output().width; }
  void BiasGradient(const void* dy, float* dbias) {
    SumParts(dbias, [&](int64_t begin, int64_t end, float* sums) {
      kernels_.sum_columns(end - begin, shape_.out, Floats(dy) + begin * shape_.out, sums);
    });
  }
  // Calls sum(first position, end, sums [out]) for parts of the positions, and adds up the parts' sums in
  // their order.
  template <typename Sum>
  void SumParts(float* sums, const Sum& sum) {
    const int64_t least = std::max<int64_t>(1, kLeastElements / shape_.out);
    const int64_t size = PartSize(threads_, positions(), least);
    ForEachPart(threads_, positions(), least, [&](int64_t begin, int64_t end) {
      sum(begin, end, begin == 0 ? sums : part_sums_.data() + (begin / size - 1) * shape_.out);
    });
    for (int64_t begin = size; begin < positions(); begin += size) {
      const float* const part = part_sums_.data() + (begin / size - 1) * shape_.out;
      for (int64_t c = 0; c < shape_.out; ++c) sums[c] += part[c];
    }
  }
  absl::Status RunFilterGradient(const void* x, const void* dy, float* dfilters) {
    omp_set_num_threads(threads_);
    return Catch([&] {
      x_.Set(x), dy_.Set(dy), dfilters_.Set(dfilters);
      filters_memory_.Bind(scratch_->data());
      backward_filters_.Run(stream_);
      Unpack(unpack_);
    });
  }

  // The least number of output channels for which one pass over columns computes both the mask of relu and
  // the bias gradient. Fewer channels do not fill vectors; a separate pass of relu over all elements is then
  // faster.
  static constexpr int64_t kLeastInOnePass = 16;

  const ConvolutionShape shape_;
  const int threads_;
  const Kernels& kernels_;
  const ActivationLoops& relu_;
  std::vector<float> part_sums_;  // [threads - 1, out]: parts of the bias gradient.
  const std::shared_ptr<Scratch> scratch_;
  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  const dnnl::stream stream_{engine_};
  // Makes oneDNN use scratch memory that we provide, so that no execution allocates scratch memory.
  dnnl::primitive_attr attributes_;
  View x_, filters_, bias_, y_;
  View dx_, dfilters_, dy_;
  Conversion pack_forward_, unpack_, pack_backward_;
  Execution forward_, backward_filters_, backward_data_;
  PassMemory forward_memory_, filters_memory_, data_memory_;
  bool turns_ = false;  // True: the gradient of x is computed as a forward convolution with turned filters.
  memory turned_;
  std::string description_;
};

Convolution::Convolution(const ConvolutionShape& shape, int threads, const Kernels& kernels,
                         std::shared_ptr<Scratch> scratch)
    : shape_(shape),
      threads_(threads),
      kernels_(kernels),
      relu_(kernels.activations[static_cast<int>(ActivationFunction::kRelu)]),
      part_sums_(shape.has_bias ? (threads - 1) * shape.out : 0),
      scratch_(std::move(scratch)) {
  omp_set_num_threads(threads_);  // oneDNN's choice of algorithm depends on the number of threads.
  attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const Layouts layouts = MakeLayouts();
  x_ = View(layouts.x, engine_), dx_ = View(layouts.x, engine_);
  filters_ = View(layouts.filters, engine_), dfilters_ = View(layouts.filters, engine_);
  if (shape_.has_bias) bias_ = View(layouts.bias, engine_);
  y_ = View(layouts.y, engine_), dy_ = View(layouts.y, engine_);

  const auto forward = DescribeForward<dnnl::convolution_forward>(
      engine_, attributes_, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, layouts.x,
      layouts.any_filters, layouts.bias, layouts.y, layouts.strides, layouts.dilations, layouts.before,
      layouts.after);
  PrepareForward(forward);
  PrepareBackwardFilters(layouts, forward);
  PrepareBackwardData(layouts, forward);
}

// Axes are in oneDNN's order, which does not depend on the layout: images (rows, channels, height, width),
// filters (out, in, height, width), or (groups, out, in, height, width) with the channels of one group. A
// description without axes stands for no bias. oneDNN counts dilations from 0.
Convolution::Layouts Convolution::MakeLayouts() const {
  const auto& [rows, in, out, window, relu, groups, has_bias] = shape_;
  const ImageShape output = shape_.output();
  const auto layout = [](const memory::dims& axes, memory::format_tag order) {
    return memory::desc(axes, memory::data_type::f32, order);
  };
  memory::dims filters = {out / groups, in.channels / groups, window.height.size, window.width.size};
  if (groups > 1) filters.insert(filters.begin(), groups);
  return {.x = layout({rows, in.channels, in.height, in.width}, memory::format_tag::nhwc),
          .filters = layout(filters, groups > 1 ? memory::format_tag::gohwi : memory::format_tag::ohwi),
          .any_filters = layout(filters, memory::format_tag::any),
          .bias = has_bias ? layout({out}, memory::format_tag::x) : memory::desc(),
          .y = layout({rows, out, output.height, output.width}, memory::format_tag::nhwc),
          .strides = {window.height.stride, window.width.stride},
          .dilations = {window.height.dilation - 1, window.width.dilation - 1},
          .before = {window.height.before, window.width.before},
          .after = {window.height.after, window.width.after}};
}

void Convolution::PrepareForward(const dnnl::convolution_forward::primitive_desc& forward) {
  const memory packed = AddPacked(forward_memory_, forward.weights_desc());
  pack_forward_ = Convert(filters_.get(), packed, /*packs=*/true);
  std::vector<std::pair<int, memory>> arguments = {
      {DNNL_ARG_SRC, x_.get()},
      {DNNL_ARG_WEIGHTS, packed},
      {DNNL_ARG_DST, y_.get()},
      {DNNL_ARG_SCRATCHPAD, forward_memory_.Add(forward.scratchpad_desc(), engine_)}};
  if (shape_.has_bias) arguments.emplace_back(DNNL_ARG_BIAS, bias_.get());
  forward_ = Execution(dnnl::convolution_forward(forward), std::move(arguments));
  description_ = absl::StrCat("forward ", forward.impl_info_str());
}

void Convolution::PrepareBackwardFilters(const Layouts& layouts,
                                         const dnnl::convolution_forward::primitive_desc& hint) {
  const auto backward = DescribeBackward<dnnl::convolution_backward_weights>(
      engine_, attributes_, hint, dnnl::algorithm::convolution_direct, layouts.x, layouts.any_filters,
      memory::desc(), layouts.y, layouts.strides, layouts.dilations, layouts.before, layouts.after);
  const memory packed = filters_memory_.Add(backward.diff_weights_desc(), engine_, shape_.filters());
  std::vector<std::pair<int, memory>> arguments = {
      {DNNL_ARG_SRC, x_.get()},
      {DNNL_ARG_DIFF_DST, dy_.get()},
      {DNNL_ARG_DIFF_WEIGHTS, packed},
      {DNNL_ARG_SCRATCHPAD, filters_memory_.Add(backward.scratchpad_desc(), engine_)}};
  backward_filters_ = Execution(dnnl::convolution_backward_weights(backward), std::move(arguments));
  unpack_ = Convert(dfilters_.get(), packed, /*packs=*/false);
  absl::StrAppend(&description_, ", filters ", backward.impl_info_str());
}

void Convolution::PrepareBackwardData(const Layouts& layouts,
                                      const dnnl::convolution_forward::primitive_desc& hint) {
  const auto backward = DescribeBackward<dnnl::convolution_backward_data>(
      engine_, attributes_, hint, dnnl::algorithm::convolution_direct, layouts.x, layouts.any_filters,
      layouts.y, layouts.strides, layouts.dilations, layouts.before, layouts.after);
  if (PrepareTurned(layouts, backward.impl_info_str())) return;
  const memory packed = AddPacked(data_memory_, backward.weights_desc());
  pack_backward_ = Convert(filters_.get(), packed, /*packs=*/true);
  backward_data_ = Execution(dnnl::convolution_backward_data(backward),
                             {{DNNL_ARG_DIFF_SRC, dx_.get()},
                              {DNNL_ARG_WEIGHTS, packed},
                              {DNNL_ARG_DIFF_DST, dy_.get()},
                              {DNNL_ARG_SCRATCHPAD, data_memory_.Add(backward.scratchpad_desc(), engine_)}});
  absl::StrAppend(&description_, ", data ", backward.impl_info_str());
}

// The gradient of x, if the stride is 1, is the convolution of dy with the filters turned by 180 degrees and
// with the axes in and out exchanged. oneDNN 2.6 has fast kernels ("brgconv") for plain images in the forward
// direction only. Compared with oneDNN's backward kernels, these forward kernels take 0.93 of the time for
// images of VGG16's first four blocks, half of the time for 512 channels of 28 x 28 pixels, and the same time
// for smaller images and for windows of one pixel. Returns false if the gradient is not computed in this way.
bool Convolution::PrepareTurned(const Layouts& layouts, absl::string_view backward_algorithm) {
  constexpr int64_t kLeastChannels = 64, kLeastPixels = 28 * 28;
  const Window::Axis &h = shape_.window.height, &w = shape_.window.width;
  const bool gains = h.size * w.size > 1 && shape_.in.height * shape_.in.width >= kLeastPixels &&
                     std::min(shape_.in.channels, shape_.out) >= kLeastChannels &&
                     !absl::StrContains(backward_algorithm, "brg");
  if (!gains || h.stride != 1 || w.stride != 1 || shape_.groups != 1) return false;
  const memory::dims axes = {shape_.in.channels, shape_.out, h.size, w.size};
  const auto layout = [&](memory::format_tag order) {
    return memory::desc(axes, memory::data_type::f32, order);
  };
  const auto turned = DescribeForward<dnnl::convolution_forward>(
      engine_, attributes_, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      layouts.y, layout(memory::format_tag::any), memory::desc(), layouts.x, layouts.strides,
      layouts.dilations, memory::dims{h.extent() - 1 - h.before, w.extent() - 1 - w.before},
      memory::dims{h.extent() - 1 - h.after, w.extent() - 1 - w.after});
  if (!absl::StartsWith(turned.impl_info_str(), "brgconv")) return false;
  turns_ = true;
  turned_ = data_memory_.Add(layout(memory::format_tag::ohwi), engine_);
  const memory packed = AddPacked(data_memory_, turned.weights_desc());
  pack_backward_ = Convert(turned_, packed, /*packs=*/true);
  backward_data_ = Execution(dnnl::convolution_forward(turned),
                             {{DNNL_ARG_SRC, dy_.get()},
                              {DNNL_ARG_WEIGHTS, packed},
                              {DNNL_ARG_DST, dx_.get()},
                              {DNNL_ARG_SCRATCHPAD, data_memory_.Add(turned.scratchpad_desc(), engine_)}});
  absl::StrAppend(&description_, ", data ", turned.impl_info_str(), " with turned filters");
  return true;
}

// turned [in, height, width, out] at (i, y, x, o) = filters [out, height, width, in] at (o, H-1-y, W-1-x, i).
// Blocks of out and in fit into the cache.
void Convolution::Turn(const float* filters) {
  constexpr int64_t kBlock = 32;
  const int64_t in = shape_.in.channels, out = shape_.out;
  const int64_t taps = shape_.window.height.size * shape_.window.width.size;
  auto* const turned = static_cast<float*>(turned_.get_data_handle());
  for (int64_t tap = 0; tap < taps; ++tap) {
    const float* const from = filters + (taps - 1 - tap) * in;
    float* const to = turned + tap * out;
    for (int64_t i0 = 0; i0 < in; i0 += kBlock) {
      for (int64_t o0 = 0; o0 < out; o0 += kBlock) {
        for (int64_t i = i0; i < std::min(in, i0 + kBlock); ++i) {
          for (int64_t o = o0; o < std::min(out, o0 + kBlock); ++o) {
            to[i * taps * out + o] = from[o * taps * in + i];
          }
        }
      }
    }
  }
}

}  // namespace

Created<ConvolutionShape> Create(const ConvolutionShape& shape, const Context& context) {
  const bool skips = SkipsPixels(shape.window);
  const ConvolutionShape dense = skips ? ShapeOfSeenPixels(shape) : shape;
  std::unique_ptr<Convolution> primitive;
  TETHYS_RETURN_IF_ERROR(Catch([&] {
    primitive = std::make_unique<Convolution>(dense, context.threads, context.kernels, context.scratch);
  }));
  TETHYS_RETURN_IF_ERROR(context.scratch->Reserve(primitive->scratch_bytes()));
  if (!skips) return primitive;
  return CreateSkippingConvolution(shape, context.threads, std::move(primitive));
}

}  // namespace tethys::cpu
