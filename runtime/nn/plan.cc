#include "runtime/nn/plan.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace tethys {
namespace {

// Activations of layer i lie in outputs_[i]; its input is outputs_[i - 1], or the converted batch for the
// first. Gradients of activations are needed for one layer and its predecessor only, so two buffers take
// turns.
class DensePlan final : public Plan {
 public:
  DensePlan(const Model& model, Device& device, Stream& stream, int64_t rows, const float* parameters,
            float* gradient_sums)
      : device_(device),
        stream_(stream),
        layers_(model.dense_layers()),
        rows_(rows),
        sample_elements_(model.sample_elements()),
        classes_(model.classes()),
        parameters_(parameters),
        gradient_sums_(gradient_sums) {}

  absl::Status Initialize(const InputScaling& scaling);

  int64_t rows() const override { return rows_; }
  absl::Status Forward(const HostBatch& batch) override;
  absl::Status Backward(ReadyCallback ready) override;
  absl::StatusOr<LossResult> Loss() override;
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string Describe() const override;

 private:
  absl::Status CheckBatch(const HostBatch& batch) const;
  // `host` itself where the device reads host memory, else a copy of it in `staging`.
  template <typename T>
  absl::StatusOr<const T*> OnDevice(const T* host, int64_t count, Buffer* staging);
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes);
  absl::Status AllocateStaging();
  const float* Input(size_t layer) { return layer == 0 ? input_->floats() : outputs_[layer - 1]->floats(); }
  float* Gradient(size_t layer) { return training() ? gradients_[layer % 2]->floats() : nullptr; }
  bool training() const { return gradient_sums_ != nullptr; }

  Device& device_;
  Stream& stream_;
  const std::vector<Model::DenseLayer> layers_;
  const int64_t rows_;
  const int64_t sample_elements_;
  const int64_t classes_;
  const float* const parameters_;
  float* const gradient_sums_;

  std::unique_ptr<InputConversionPrimitive> conversion_;
  std::vector<std::unique_ptr<DensePrimitive>> dense_;
  std::unique_ptr<SoftmaxCrossEntropyPrimitive> loss_;
  std::vector<std::unique_ptr<Event>> ready_;  // One per layer, in the order of ready_order().

  // Null where the device reads host memory.
  std::unique_ptr<Buffer> staged_inputs_;
  std::unique_ptr<Buffer> staged_labels_;
  std::unique_ptr<Buffer> staged_weights_;
  std::unique_ptr<Buffer> input_;                     // [rows, sample elements]
  std::vector<std::unique_ptr<Buffer>> outputs_;      // [rows, layer's out]
  std::array<std::unique_ptr<Buffer>, 2> gradients_;  // [rows, widest layer's out]
  std::unique_ptr<Buffer> loss_result_;
  int64_t workspace_bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<Buffer>> DensePlan::Allocate(int64_t bytes) {
  workspace_bytes_ += bytes;
  return device_.Allocate(bytes, MemoryKind::kDevice);
}

absl::Status DensePlan::AllocateStaging() {
  TETHYS_ASSIGN_OR_RETURN(staged_inputs_, Allocate(rows_ * sample_elements_));
  TETHYS_ASSIGN_OR_RETURN(staged_labels_, Allocate(rows_ * sizeof(int32_t)));
  TETHYS_ASSIGN_OR_RETURN(staged_weights_, Allocate(rows_ * sizeof(float)));
  return absl::OkStatus();
}

absl::Status DensePlan::Initialize(const InputScaling& scaling) {
  const int64_t row_bytes = rows_ * sizeof(float);
  TETHYS_ASSIGN_OR_RETURN(
      conversion_, device_.CreateInputConversion(rows_ * sample_elements_, scaling.mean, scaling.deviation));
  TETHYS_ASSIGN_OR_RETURN(loss_, device_.CreateSoftmaxCrossEntropy(rows_, classes_));
  TETHYS_ASSIGN_OR_RETURN(loss_result_, Allocate(sizeof(LossResult)));
  TETHYS_ASSIGN_OR_RETURN(input_, Allocate(row_bytes * sample_elements_));
  if (!device_.reads_host_memory()) TETHYS_RETURN_IF_ERROR(AllocateStaging());
  int64_t widest = 0;
  for (const Model::DenseLayer& layer : layers_) {
    TETHYS_ASSIGN_OR_RETURN(
        dense_.emplace_back(),
        device_.CreateDense({.rows = rows_, .in = layer.in, .out = layer.out, .relu = layer.relu}));
    TETHYS_ASSIGN_OR_RETURN(outputs_.emplace_back(), Allocate(row_bytes * layer.out));
    widest = std::max(widest, layer.out);
  }
  if (!training()) return absl::OkStatus();
  for (auto& gradients : gradients_) {
    TETHYS_ASSIGN_OR_RETURN(gradients, Allocate(row_bytes * widest));
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    TETHYS_ASSIGN_OR_RETURN(ready_.emplace_back(), device_.CreateEvent());
  }
  return absl::OkStatus();
}

absl::Status DensePlan::CheckBatch(const HostBatch& batch) const {
  if (batch.rows != rows_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch.rows, " rows was given to a plan for ", rows_, ": pad it"));
  }
  for (int64_t r = 0; r < rows_; ++r) {
    if (batch.labels[r] < 0 || batch.labels[r] >= classes_) {
      return absl::InvalidArgumentError(absl::StrCat("row ", r, " of the batch has label ", batch.labels[r],
                                                     ", which is not in [0, ", classes_, ")"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<const T*> DensePlan::OnDevice(const T* host, int64_t count, Buffer* staging) {
  if (staging == nullptr) return host;
  TETHYS_RETURN_IF_ERROR(device_.CopyToDevice(stream_, staging->data(), host, count * sizeof(T)));
  return static_cast<const T*>(staging->data());
}

absl::Status DensePlan::Forward(const HostBatch& batch) {
  TETHYS_RETURN_IF_ERROR(CheckBatch(batch));
  TETHYS_ASSIGN_OR_RETURN(const uint8_t* inputs,
                          OnDevice<uint8_t>(batch.inputs, rows_ * sample_elements_, staged_inputs_.get()));
  TETHYS_ASSIGN_OR_RETURN(const int32_t* labels,
                          OnDevice<int32_t>(batch.labels, rows_, staged_labels_.get()));
  TETHYS_ASSIGN_OR_RETURN(const float* weights, OnDevice<float>(batch.weights, rows_, staged_weights_.get()));
  TETHYS_RETURN_IF_ERROR(conversion_->Run(stream_, inputs, input_->floats()));
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto& layer = layers_[i];
    TETHYS_RETURN_IF_ERROR(dense_[i]->Forward(stream_, Input(i), parameters_ + layer.weights.begin,
                                              parameters_ + layer.bias.begin, outputs_[i]->floats()));
  }
  return loss_->Run(stream_, outputs_.back()->floats(), labels, weights, Gradient(layers_.size() - 1),
                    static_cast<LossResult*>(loss_result_->data()));
}

absl::Status DensePlan::Backward(ReadyCallback ready) {
  TETHYS_CHECK(training(), "this plan was compiled without gradients");
  const size_t count = layers_.size();
  for (size_t i = count; i-- > 0;) {
    const auto& layer = layers_[i];
    TETHYS_RETURN_IF_ERROR(
        dense_[i]->Backward(stream_, Input(i), parameters_ + layer.weights.begin, outputs_[i]->floats(),
                            Gradient(i), i == 0 ? nullptr : Gradient(i - 1),
                            gradient_sums_ + layer.weights.begin, gradient_sums_ + layer.bias.begin));
    const size_t index = count - 1 - i;
    TETHYS_RETURN_IF_ERROR(ready_[index]->Record(stream_));
    TETHYS_RETURN_IF_ERROR(ready(static_cast<int64_t>(index), *ready_[index]));
  }
  return absl::OkStatus();
}

absl::StatusOr<LossResult> DensePlan::Loss() {
  LossResult result;
  TETHYS_RETURN_IF_ERROR(device_.CopyToHost(stream_, &result, loss_result_->data(), sizeof(result)));
  TETHYS_RETURN_IF_ERROR(stream_.Synchronize());
  return result;
}

std::string DensePlan::Describe() const {
  std::string text = absl::StrCat(device_.Describe(), ", ", rows_, " rows\n");
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto& layer = layers_[i];
    absl::StrAppend(&text, layer.name, ": dense ", layer.in, " x ", layer.out, layer.relu ? " relu" : "",
                    ": ", dense_[i]->Describe(), "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Plan>> Plan::Compile(const Model& model, Device& device, Stream& stream,
                                                    int64_t rows, const InputScaling& scaling,
                                                    const float* parameters, float* gradient_sums) {
  if (rows < 1 || rows > (int64_t{1} << 31) || model.sample_elements() > (int64_t{1} << 40) / rows) {
    return absl::InvalidArgumentError(absl::StrCat("a plan for ", rows, " rows of ", model.sample_elements(),
                                                   " elements is out of reach: choose a smaller batch"));
  }
  auto plan = std::make_unique<DensePlan>(model, device, stream, rows, parameters, gradient_sums);
  TETHYS_RETURN_IF_ERROR(plan->Initialize(scaling));
  return plan;
}

}  // namespace tethys
