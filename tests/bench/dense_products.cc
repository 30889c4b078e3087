#include "tests/bench/dense_products.h"

#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "runtime/device/cpu/onednn.h"
#include "runtime/tensor/arena.h"

namespace tethys {
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto kFloat = dnnl::memory::data_type::f32;

// The operands of all three products of one layer.
struct Operands {
  explicit Operands(const DenseShape& shape)
      : x(shape.rows * shape.in),
        weights(shape.in * shape.out),
        y(shape.rows * shape.out),
        dx(shape.rows * shape.in),
        dweights(shape.in * shape.out) {
    for (Arena* arena : {&x, &weights, &y}) {
      for (int64_t i = 0; i < arena->size(); ++i) arena->data()[i] = static_cast<float>(i % 17) / 17 - 0.5f;
    }
  }
  Arena x, weights, y, dx, dweights;
};

// A oneDNN primitive and its operands. The operands are bound once, in C++; the primitive is executed through
// the C interface.
class BoundPrimitive {
 public:
  BoundPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad, const dnnl::engine& engine)
      : primitive_(std::move(primitive)), engine_(engine), stream_(engine) {
    Bind(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, engine_));
  }
  void Bind(int argument, const dnnl::memory::desc& description, float* data) {
    Bind(argument, dnnl::memory(description, engine_, data));
  }
  void Run() const {
    dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                           arguments_.data());
  }

 private:
  void Bind(int argument, dnnl::memory memory) {
    arguments_.push_back({argument, memory.get()});
    memories_.push_back(std::move(memory));
  }

  dnnl::primitive primitive_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::function<void()> Sgemm(Product product, const DenseShape& s, std::shared_ptr<Operands> o) {
  switch (product) {
    case Product::kForward:
      return [=] {
        dnnl_sgemm('N', 'N', s.rows, s.out, s.in, 1, o->x.data(), s.in, o->weights.data(), s.out, 0,
                   o->y.data(), s.out);
      };
    case Product::kData:
      return [=] {
        dnnl_sgemm('N', 'T', s.rows, s.in, s.out, 1, o->y.data(), s.out, o->weights.data(), s.out, 0,
                   o->dx.data(), s.in);
      };
    case Product::kWeights:
      return [=] {
        dnnl_sgemm('T', 'N', s.in, s.out, s.rows, 1, o->x.data(), s.in, o->y.data(), s.out, 0,
                   o->dweights.data(), s.out);
      };
  }
  return nullptr;
}

// Multiplies a [m, k] by b [k, n] into a plain c [m, n]. The strides of a and b express transposition.
std::function<void()> Matmul(Product product, const DenseShape& s, std::shared_ptr<Operands> o) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::memory::desc a, b, c;
  float *a_data, *b_data, *c_data;
  if (product == Product::kForward) {
    a = {{s.rows, s.in}, kFloat, Dims{s.in, 1}};
    b = {{s.in, s.out}, kFloat, Dims{s.out, 1}};
    c = {{s.rows, s.out}, kFloat, Dims{s.out, 1}};
    a_data = o->x.data(), b_data = o->weights.data(), c_data = o->y.data();
  } else if (product == Product::kData) {
    a = {{s.rows, s.out}, kFloat, Dims{s.out, 1}};
    b = {{s.out, s.in}, kFloat, Dims{1, s.out}};
    c = {{s.rows, s.in}, kFloat, Dims{s.in, 1}};
    a_data = o->y.data(), b_data = o->weights.data(), c_data = o->dx.data();
  } else {
    a = {{s.in, s.rows}, kFloat, Dims{1, s.in}};
    b = {{s.rows, s.out}, kFloat, Dims{s.out, 1}};
    c = {{s.in, s.out}, kFloat, Dims{s.out, 1}};
    a_data = o->x.data(), b_data = o->y.data(), c_data = o->dweights.data();
  }
  const auto pd = cpu::DescribeForward<dnnl::matmul>(engine, UserScratchpad(), a, b, c);
  auto bound = std::make_shared<BoundPrimitive>(dnnl::matmul(pd), pd.scratchpad_desc(), engine);
  bound->Bind(DNNL_ARG_SRC, a, a_data);
  bound->Bind(DNNL_ARG_WEIGHTS, b, b_data);
  bound->Bind(DNNL_ARG_DST, c, c_data);
  return [bound, o] { bound->Run(); };
}

std::function<void()> InnerProduct(Product product, const DenseShape& s, std::shared_ptr<Operands> o) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::memory::desc x({s.rows, s.in}, kFloat, Tag::nc), y({s.rows, s.out}, kFloat, Tag::nc);
  const dnnl::memory::desc weights({s.out, s.in}, kFloat, Tag::io);
  using Forward = dnnl::inner_product_forward;
  const auto forward = cpu::DescribeForward<Forward>(engine, UserScratchpad(),
                                                     dnnl::prop_kind::forward_training, x, weights, y);
  std::shared_ptr<BoundPrimitive> bound;
  if (product == Product::kForward) {
    bound = std::make_shared<BoundPrimitive>(Forward(forward), forward.scratchpad_desc(), engine);
    bound->Bind(DNNL_ARG_SRC, x, o->x.data());
    bound->Bind(DNNL_ARG_WEIGHTS, weights, o->weights.data());
    bound->Bind(DNNL_ARG_DST, y, o->y.data());
  } else if (product == Product::kData) {
    using Data = dnnl::inner_product_backward_data;
    const auto pd = cpu::DescribeBackward<Data>(engine, UserScratchpad(), forward, x, weights, y);
    bound = std::make_shared<BoundPrimitive>(Data(pd), pd.scratchpad_desc(), engine);
    bound->Bind(DNNL_ARG_DIFF_DST, y, o->y.data());
    bound->Bind(DNNL_ARG_WEIGHTS, weights, o->weights.data());
    bound->Bind(DNNL_ARG_DIFF_SRC, x, o->dx.data());
  } else {
    using Weights = dnnl::inner_product_backward_weights;
    const auto pd = cpu::DescribeBackward<Weights>(engine, UserScratchpad(), forward, x, weights, y);
    bound = std::make_shared<BoundPrimitive>(Weights(pd), pd.scratchpad_desc(), engine);
    bound->Bind(DNNL_ARG_SRC, x, o->x.data());
    bound->Bind(DNNL_ARG_DIFF_DST, y, o->y.data());
    bound->Bind(DNNL_ARG_DIFF_WEIGHTS, weights, o->dweights.data());
  }
  return [bound, o] { bound->Run(); };
}

}  // namespace

const char* ProductName(Product product) {
  switch (product) {
    case Product::kForward:
      return "forward";
    case Product::kData:
      return "data";
    case Product::kWeights:
      return "weights";
  }
  return "";
}

std::vector<ProductCandidate> MakeCandidates(Product product, const DenseShape& shape) {
  const auto operands = std::make_shared<Operands>(shape);
  return {{"sgemm", Sgemm(product, shape, operands)},
          {"matmul", Matmul(product, shape, operands)},
          {"inner product", InnerProduct(product, shape, operands)}};
}

}  // namespace tethys
