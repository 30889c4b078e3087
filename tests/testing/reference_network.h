// A reference network in double precision, written for clarity alone. Tests compare plans, gradients and
// training with it. Its layers are those of a Model; parameters and gradients are laid out as in the model's
// arena.
#ifndef TETHYS_TESTS_TESTING_REFERENCE_NETWORK_H_
#define TETHYS_TESTS_TESTING_REFERENCE_NETWORK_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/tensor/batch.h"
#include "tests/testing/reference_images.h"

namespace tethys {

class ReferenceNetwork {
 public:
  ReferenceNetwork(const Model& model, const InputScaling& scaling) : model_(model), scaling_(scaling) {}

  // Weighted sum of the losses of the batch's rows.
  double Loss(const std::vector<double>& parameters, const HostBatch& batch) const {
    std::vector<double> unused(parameters.size());
    return LossAndGradients(parameters, batch, unused);
  }

  // Returns Loss() and sets `gradients` to its derivatives with respect to the parameters.
  double LossAndGradients(const std::vector<double>& parameters, const HostBatch& batch,
                          std::vector<double>& gradients) const {
    std::fill(gradients.begin(), gradients.end(), 0.0);
    double loss = 0;
    for (int64_t row = 0; row < batch.rows; ++row) loss += AddRow(parameters, batch, row, gradients);
    return loss;
  }

 private:
  using Vector = std::vector<double>;

  // The tensors of a layer for one row. Gradients of the inputs are added to `dx`.
  struct Tensors {
    std::vector<const Vector*> x;
    Vector* y;
    const Vector* dy;
    std::vector<Vector*> dx;
  };

  double AddRow(const Vector& parameters, const HostBatch& batch, int64_t row, Vector& gradients) const {
    if (batch.weights[row] == 0) return 0;
    const int layers = model_.graph().layer_count();
    std::vector<Vector> values = {Input(batch, row)}, deltas;
    values.resize(layers + 1);
    for (int i = 0; i < layers; ++i) values[i + 1].resize(model_.graph().elements(i + 1));
    for (int i = 0; i <= layers; ++i) deltas.emplace_back(values[i].size());
    for (int i = 0; i < layers; ++i) Forward(model_.layers()[i], parameters, TensorsOf(i, values, deltas));
    deltas.back() = values.back();
    const double loss = SoftmaxCrossEntropy(batch.labels[row], batch.weights[row], deltas.back());
    for (int i = layers; i-- > 0;) {
      Backward(model_.layers()[i], parameters, TensorsOf(i, values, deltas), gradients);
    }
    return loss;
  }

  Tensors TensorsOf(int layer, std::vector<Vector>& values, std::vector<Vector>& deltas) const {
    Tensors tensors = {.x = {}, .y = &values[layer + 1], .dy = &deltas[layer + 1], .dx = {}};
    for (const int input : model_.graph().layers()[layer].inputs) {
      tensors.x.push_back(&values[input]);
      tensors.dx.push_back(&deltas[input]);
    }
    return tensors;
  }

  Vector Input(const HostBatch& batch, int64_t row) const {
    Vector x(model_.sample_elements());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t channel = i % scaling_.channels();
      x[i] =
          (batch.inputs[row * x.size() + i] / 255.0 - scaling_.mean[channel]) / scaling_.deviation[channel];
    }
    return x;
  }

  static ImageShape Image(const Shape& shape) {
    return {shape[0], shape[1], shape.size() == 2 ? 1 : shape[2]};
  }

  // The windows of a layer, from its fields and its images. Padding is as in TensorFlow: if the number of
  // padding pixels is odd, one more pixel is put after the image than before it.
  template <typename Config>
  static Window::Axis Axis(int64_t in, int64_t out, const Config& config, int64_t size, int64_t dilation) {
    const int64_t reach = (out - 1) * config.stride() + (size - 1) * dilation + 1;
    const int64_t total =
        config.padding() == proto::SAME ? std::max<int64_t>(0, reach - in) : 2 * config.pad();
    return {.size = size,
            .stride = config.stride(),
            .before = total / 2,
            .after = total - total / 2,
            .dilation = dilation};
  }
  template <typename Config>
  static Window WindowOf(const Model::Layer& layer, const Config& config, int64_t size,
                         int64_t dilation = 1) {
    const ImageShape in = Image(layer.inputs[0]), out = Image(layer.output);
    return {.height = Axis(in.height, out.height, config, size, dilation),
            .width = Axis(in.width, out.width, config, size, dilation)};
  }

  // Calls visit(x, weight, y) for every multiplication of a dense layer or a convolution, with indices into
  // the input, the weights and the output.
  template <typename Visit>
  static void ForEachWeight(const Model::Layer& layer, const Visit& visit) {
    if (layer.config.has_dense()) {
      const int64_t in = layer.inputs[0][0], out = layer.output[0];
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t i = 0; i < in; ++i) visit(i, i * out + o, o);
      }
      return;
    }
    const proto::Convolution& convolution = layer.config.convolution();
    ForEachProduct({.rows = 1,
                    .in = Image(layer.inputs[0]),
                    .out = convolution.filters(),
                    .window = WindowOf(layer, convolution, convolution.kernel_size(), convolution.dilation()),
                    .groups = convolution.groups()},
                   visit);
  }

  // Calls visit(x, y, factor) for every element of every window, or of the whole image, with indices into the
  // input and the output; `factor` is the element's weight in the mean.
  template <typename Visit>
  static void ForEachMean(const Model::Layer& layer, const Visit& visit) {
    const ImageShape in = Image(layer.inputs[0]);
    if (layer.config.has_global_average_pooling()) {
      const int64_t pixels = in.height * in.width;
      for (int64_t i = 0; i < in.elements(); ++i) visit(i, i % in.channels, 1.0 / pixels);
      return;
    }
    const proto::AveragePooling& pooling = layer.config.average_pooling();
    const Window window = WindowOf(layer, pooling, pooling.size());
    const ImageShape out = Image(layer.output);
    std::vector<double> pixels(out.height * out.width);
    ForEachTap(in, out, window, [&](Pixel at, Pixel, Pixel) { pixels[at.y * out.width + at.x] += 1; });
    if (pooling.count_padding()) std::fill(pixels.begin(), pixels.end(), pooling.size() * pooling.size());
    ForEachTap(in, out, window, [&](Pixel at, Pixel, Pixel from) {
      for (int64_t c = 0; c < in.channels; ++c) {
        visit(At(in, 0, from) + c, At(out, 0, at) + c, 1 / pixels[at.y * out.width + at.x]);
      }
    });
  }

  // The range of the layer's bias; empty if the layer has no bias.
  static Range BiasOf(const Model::Layer& layer) {
    return layer.variables.size() > 1 ? layer.variables[1] : Range();
  }

  static std::vector<int64_t> Maxima(const Model::Layer& layer, const Vector& x) {
    const proto::MaxPooling& pooling = layer.config.max_pooling();
    return ReferenceMaxima<double>(
        {.rows = 1, .in = Image(layer.inputs[0]), .window = WindowOf(layer, pooling, pooling.size())}, x);
  }

  static double Activate(proto::Activation activation, double x) {
    switch (activation) {
      case proto::RELU:
        return std::max(x, 0.0);
      case proto::RELU6:
        return std::min(std::max(x, 0.0), 6.0);
      case proto::SIGMOID:
        return 1 / (1 + std::exp(-x));
      case proto::TANH:
        return std::tanh(x);
      default:
        return x;
    }
  }
  static double Derivative(proto::Activation activation, double y) {
    switch (activation) {
      case proto::RELU:
        return y > 0;
      case proto::RELU6:
        return y > 0 && y < 6;
      case proto::SIGMOID:
        return y * (1 - y);
      case proto::TANH:
        return 1 - y * y;
      default:
        return 1;
    }
  }
  // The activation that the layer's operation applies. Other activations are separate layers.
  static proto::Activation ActivationOf(const proto::Layer& config) {
    if (config.has_activate()) return config.activate().activation();
    const proto::Activation field =
        config.has_dense() ? config.dense().activation() : config.convolution().activation();
    return field == proto::RELU ? field : proto::ACTIVATION_NONE;
  }

  static void Forward(const Model::Layer& layer, const Vector& parameters, const Tensors& tensors) {
    const Vector& x = *tensors.x[0];
    Vector& y = *tensors.y;
    if (!layer.variables.empty()) {
      const Range weights = layer.variables[0], bias = BiasOf(layer);
      for (size_t i = 0; bias.count > 0 && i < y.size(); ++i) y[i] = parameters[bias.begin + i % bias.count];
      ForEachWeight(layer, [&](int64_t from, int64_t weight, int64_t to) {
        y[to] += x[from] * parameters[weights.begin + weight];
      });
    } else if (layer.config.has_max_pooling()) {
      const std::vector<int64_t> maxima = Maxima(layer, x);
      for (size_t i = 0; i < y.size(); ++i) y[i] = x[maxima[i]];
    } else if (layer.config.has_activate()) {
      y = x;
    } else if (layer.config.has_add()) {
      for (const Vector* term : tensors.x) {
        for (size_t i = 0; i < y.size(); ++i) y[i] += (*term)[i];
      }
    } else if (layer.config.has_concatenation()) {
      ForEachJoined(layer,
                    [&](size_t input, int64_t from, int64_t to) { y[to] = (*tensors.x[input])[from]; });
    } else {
      ForEachMean(layer, [&](int64_t from, int64_t to, double factor) { y[to] += factor * x[from]; });
    }
    for (double& value : y) value = Activate(ActivationOf(layer.config), value);
  }

  // Calls visit(input, index in the input, index in the output) for every element of the inputs.
  template <typename Visit>
  static void ForEachJoined(const Model::Layer& layer, const Visit& visit) {
    const int64_t width = layer.output.back();
    int64_t before = 0;
    for (size_t j = 0; j < layer.inputs.size(); before += layer.inputs[j].back(), ++j) {
      const int64_t columns = layer.inputs[j].back(), elements = ElementCount(layer.inputs[j]).value();
      for (int64_t i = 0; i < elements; ++i) visit(j, i, i / columns * width + before + i % columns);
    }
  }

  // Returns the loss and replaces `logits` by the derivatives of the loss with respect to `logits`.
  static double SoftmaxCrossEntropy(int32_t label, double weight, Vector& logits) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - largest);
    const double loss = weight * (std::log(sum) + largest - logits[label]);
    for (double& logit : logits) logit = weight * std::exp(logit - largest) / sum;
    logits[label] -= weight;
    return loss;
  }

  // Adds the derivatives with respect to the layer's inputs and variables.
  static void Backward(const Model::Layer& layer, const Vector& parameters, const Tensors& tensors,
                       Vector& gradients) {
    const Vector &x = *tensors.x[0], &y = *tensors.y;
    Vector& dx = *tensors.dx[0];
    Vector delta = *tensors.dy;
    for (size_t i = 0; i < y.size(); ++i) delta[i] *= Derivative(ActivationOf(layer.config), y[i]);
    if (!layer.variables.empty()) {
      const Range weights = layer.variables[0], bias = BiasOf(layer);
      for (size_t i = 0; bias.count > 0 && i < y.size(); ++i)
        gradients[bias.begin + i % bias.count] += delta[i];
      ForEachWeight(layer, [&](int64_t from, int64_t weight, int64_t to) {
        gradients[weights.begin + weight] += x[from] * delta[to];
        dx[from] += parameters[weights.begin + weight] * delta[to];
      });
    } else if (layer.config.has_max_pooling()) {
      const std::vector<int64_t> maxima = Maxima(layer, x);
      for (size_t i = 0; i < maxima.size(); ++i) dx[maxima[i]] += delta[i];
    } else if (layer.config.has_activate()) {
      for (size_t i = 0; i < delta.size(); ++i) dx[i] += delta[i];
    } else if (layer.config.has_add()) {
      for (Vector* term : tensors.dx) {
        for (size_t i = 0; i < delta.size(); ++i) (*term)[i] += delta[i];
      }
    } else if (layer.config.has_concatenation()) {
      ForEachJoined(layer,
                    [&](size_t input, int64_t from, int64_t to) { (*tensors.dx[input])[from] += delta[to]; });
    } else {
      ForEachMean(layer, [&](int64_t from, int64_t to, double factor) { dx[from] += factor * delta[to]; });
    }
  }

  const Model& model_;
  const InputScaling scaling_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_TESTING_REFERENCE_NETWORK_H_
