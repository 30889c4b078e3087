// A multilayer perceptron in double precision, written for clarity alone: what plans, gradients and training
// are tested against. Reads a Model's layers and ranges; parameters and gradients lie as in the model's
// arena.
#ifndef TETHYS_TESTS_TESTING_REFERENCE_MLP_H_
#define TETHYS_TESTS_TESTING_REFERENCE_MLP_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/tensor/batch.h"

namespace tethys {

class ReferenceMlp {
 public:
  ReferenceMlp(const Model& model, const InputScaling& scaling) : model_(model), scaling_(scaling) {}

  // Weighted sum of the losses of the batch's rows.
  double Loss(const std::vector<double>& parameters, const HostBatch& batch) const {
    std::vector<double> unused(parameters.size());
    return LossAndGradients(parameters, batch, unused);
  }

  // The same; `gradients` becomes its derivative by the parameters.
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
    const auto& layers = model_.dense_layers();
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

  static Vector Forward(const Model::DenseLayer& layer, const Vector& parameters, const Vector& x) {
    Vector y(layer.out);
    for (int64_t o = 0; o < layer.out; ++o) {
      y[o] = parameters[layer.bias.begin + o];
      for (int64_t i = 0; i < layer.in; ++i)
        y[o] += x[i] * parameters[layer.weights.begin + i * layer.out + o];
      if (layer.relu) y[o] = std::max(y[o], 0.0);
    }
    return y;
  }

  // `logits` become the derivative of the loss by them.
  static double SoftmaxCrossEntropy(int32_t label, double weight, Vector& logits) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - largest);
    const double loss = weight * (std::log(sum) + largest - logits[label]);
    for (double& logit : logits) logit = weight * std::exp(logit - largest) / sum;
    logits[label] -= weight;
    return loss;
  }

  // Returns the derivative by the layer's input, given `delta`, that by its output.
  static Vector Backward(const Model::DenseLayer& layer, const Vector& parameters, const Vector& x,
                         const Vector& y, const Vector& delta, Vector& gradients) {
    Vector dx(layer.in);
    for (int64_t o = 0; o < layer.out; ++o) {
      if (layer.relu && y[o] <= 0) continue;
      gradients[layer.bias.begin + o] += delta[o];
      for (int64_t i = 0; i < layer.in; ++i) {
        const int64_t weight = layer.weights.begin + i * layer.out + o;
        gradients[weight] += x[i] * delta[o];
        dx[i] += parameters[weight] * delta[o];
      }
    }
    return dx;
  }

  const Model& model_;
  const InputScaling scaling_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_TESTING_REFERENCE_MLP_H_
