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

  double AddRow(const Vector& parameters, const HostBatch& batch, int64_t row, Vector& gradients) const {
    if (batch.weights[row] == 0) return 0;
    const auto& layers = model_.layers();
    std::vector<Vector> activations = {Input(batch, row)};
    for (const auto& layer : layers) activations.push_back(Forward(layer, parameters, activations.back()));
    Vector delta = activations.back();
    const double loss = SoftmaxCrossEntropy(batch.labels[row], batch.weights[row], delta);
    for (size_t i = layers.size(); i-- > 0;) {
      delta = Backward(layers[i], parameters, activations[i], activations[i + 1], delta, gradients);
    }
    return loss;
  }

  Vector Input(const HostBatch& batch, int64_t row) const {
    Vector x(model_.sample_elements());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = (batch.inputs[row * x.size() + i] / 255.0 - scaling_.mean) / scaling_.deviation;
    }
    return x;
  }

  // Calls visit(x, weight, y) for every multiplication, with positions in the input, weights and output.
  template <typename Visit>
  static void ForEachWeight(const DenseShape& shape, Visit&& visit) {
    for (int64_t o = 0; o < shape.out; ++o) {
      for (int64_t i = 0; i < shape.in; ++i) visit(i, i * shape.out + o, o);
    }
  }
  template <typename Visit>
  static void ForEachWeight(const ConvolutionShape& shape, Visit&& visit) {
    ForEachProduct(shape, visit);
  }

  static Vector Forward(const Model::Layer& layer, const Vector& parameters, const Vector& x) {
    return std::visit([&](const auto& shape) { return Forward(shape, layer, parameters, x); }, layer.shape);
  }
  template <typename ProductShape>
  static Vector Forward(const ProductShape& shape, const Model::Layer& layer, const Vector& parameters,
                        const Vector& x) {
    Vector y(layer.out);
    for (int64_t i = 0; i < layer.out; ++i) y[i] = parameters[layer.bias.begin + i % shape.out];
    ForEachWeight(shape, [&](int64_t from, int64_t weight, int64_t to) {
      y[to] += x[from] * parameters[layer.weights.begin + weight];
    });
    if (shape.relu) std::for_each(y.begin(), y.end(), [](double& value) { value = std::max(value, 0.0); });
    return y;
  }
  static Vector Forward(const MaxPoolingShape& shape, const Model::Layer&, const Vector&, const Vector& x) {
    Vector y;
    for (const int64_t maximum : ReferenceMaxima(shape, x)) y.push_back(x[maximum]);
    return y;
  }

  // Returns the loss and replaces `logits` by the loss's derivatives with respect to them.
  static double SoftmaxCrossEntropy(int32_t label, double weight, Vector& logits) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - largest);
    const double loss = weight * (std::log(sum) + largest - logits[label]);
    for (double& logit : logits) logit = weight * std::exp(logit - largest) / sum;
    logits[label] -= weight;
    return loss;
  }

  // Returns the loss's derivatives with respect to the layer's input, given `delta`, those for its output.
  static Vector Backward(const Model::Layer& layer, const Vector& parameters, const Vector& x,
                         const Vector& y, const Vector& delta, Vector& gradients) {
    return std::visit(
        [&](const auto& shape) { return Backward(shape, layer, parameters, x, y, delta, gradients); },
        layer.shape);
  }
  template <typename ProductShape>
  static Vector Backward(const ProductShape& shape, const Model::Layer& layer, const Vector& parameters,
                         const Vector& x, const Vector& y, Vector delta, Vector& gradients) {
    for (int64_t i = 0; i < layer.out; ++i) {
      if (shape.relu && y[i] <= 0) delta[i] = 0;
      gradients[layer.bias.begin + i % shape.out] += delta[i];
    }
    Vector dx(layer.in);
    ForEachWeight(shape, [&](int64_t from, int64_t weight, int64_t to) {
      gradients[layer.weights.begin + weight] += x[from] * delta[to];
      dx[from] += parameters[layer.weights.begin + weight] * delta[to];
    });
    return dx;
  }
  static Vector Backward(const MaxPoolingShape& shape, const Model::Layer& layer, const Vector&,
                         const Vector& x, const Vector&, const Vector& delta, Vector&) {
    Vector dx(layer.in);
    const std::vector<int64_t> maxima = ReferenceMaxima(shape, x);
    for (size_t i = 0; i < maxima.size(); ++i) dx[maxima[i]] += delta[i];
    return dx;
  }

  const Model& model_;
  const InputScaling scaling_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_TESTING_REFERENCE_NETWORK_H_
