#include "runtime/nn/plan_layer.h"

#include <utility>

namespace tethys {
namespace {

std::string ImageText(const ImageShape& image) {
  return ShapeText({image.height, image.width, image.channels});
}
std::string WindowText(const Window& window) {
  return absl::StrCat(window.height.size, " x ", window.width.size, " / ", window.height.stride);
}

// A dense layer or a convolution, which differ only in their shapes.
template <typename Primitive>
class Product final : public PlanLayer {
 public:
  Product(std::unique_ptr<Primitive> primitive, const Model::Layer& layer, std::string text,
          int64_t workspace_bytes, const float* parameters, float* gradient_sums)
      : primitive_(std::move(primitive)),
        text_(std::move(text)),
        workspace_bytes_(workspace_bytes),
        weights_(parameters + layer.weights.begin),
        bias_(parameters + layer.bias.begin),
        dweights_(gradient_sums == nullptr ? nullptr : gradient_sums + layer.weights.begin),
        dbias_(gradient_sums == nullptr ? nullptr : gradient_sums + layer.bias.begin) {}

  absl::Status Forward(Stream& stream, const float* x, float* y) override {
    return primitive_->Forward(stream, x, weights_, bias_, y);
  }
  absl::Status Backward(Stream& stream, const float* x, const float* y, float* dy, float* dx) override {
    return primitive_->Backward(stream, x, weights_, y, dy, dx, dweights_, dbias_);
  }
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string Describe() const override { return absl::StrCat(text_, ": ", primitive_->Describe()); }

 private:
  const std::unique_ptr<Primitive> primitive_;
  const std::string text_;
  const int64_t workspace_bytes_;
  const float* const weights_;
  const float* const bias_;
  float* const dweights_;
  float* const dbias_;
};

class Pooling final : public PlanLayer {
 public:
  Pooling(std::unique_ptr<MaxPoolingPrimitive> primitive, std::string text)
      : primitive_(std::move(primitive)), text_(std::move(text)) {}

  absl::Status Forward(Stream& stream, const float* x, float* y) override {
    return primitive_->Forward(stream, x, y);
  }
  absl::Status Backward(Stream& stream, const float* x, const float* y, float* dy, float* dx) override {
    return primitive_->Backward(stream, x, y, dy, dx);
  }
  int64_t workspace_bytes() const override { return primitive_->workspace_bytes(); }
  std::string Describe() const override { return text_; }

 private:
  const std::unique_ptr<MaxPoolingPrimitive> primitive_;
  const std::string text_;
};

struct Creator {
  const Model::Layer& layer;
  Device& device;
  const int64_t rows;
  const float* const parameters;
  float* const gradient_sums;

  using Result = absl::StatusOr<std::unique_ptr<PlanLayer>>;

  Result operator()(DenseShape shape) const {
    shape.rows = rows;
    TETHYS_ASSIGN_OR_RETURN(auto primitive, device.CreateDense(shape));
    const std::string text = absl::StrCat("dense ", shape.in, " x ", shape.out, shape.relu ? " relu" : "");
    return std::make_unique<Product<DensePrimitive>>(std::move(primitive), layer, text, 0, parameters,
                                                     gradient_sums);
  }

  Result operator()(ConvolutionShape shape) const {
    shape.rows = rows;
    TETHYS_ASSIGN_OR_RETURN(auto primitive, device.CreateConvolution(shape));
    const std::string text =
        absl::StrCat("convolution ", ImageText(shape.in), " to ", ImageText(shape.output()), ", ",
                     WindowText(shape.window), shape.relu ? " relu" : "");
    const int64_t workspace_bytes = primitive->workspace_bytes();
    return std::make_unique<Product<ConvolutionPrimitive>>(std::move(primitive), layer, text, workspace_bytes,
                                                           parameters, gradient_sums);
  }

  Result operator()(MaxPoolingShape shape) const {
    shape.rows = rows;
    TETHYS_ASSIGN_OR_RETURN(auto primitive, device.CreateMaxPooling(shape));
    return std::make_unique<Pooling>(std::move(primitive),
                                     absl::StrCat("max pooling ", ImageText(shape.in), " to ",
                                                  ImageText(shape.output()), ", ", WindowText(shape.window)));
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlanLayer>> PlanLayer::Create(const Model::Layer& layer, Device& device,
                                                             int64_t rows, const float* parameters,
                                                             float* gradient_sums) {
  return std::visit(Creator{layer, device, rows, parameters, gradient_sums}, layer.shape);
}

}  // namespace tethys
