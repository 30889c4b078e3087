#include "runtime/nn/plan.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtime/nn/batch_uploads.h"
#include "runtime/nn/plan_layer.h"

namespace tethys {
namespace {

// Activation 0 is the converted batch; activation i + 1 is layer i's output for activation i. Backward needs
// all activations, so a training plan has a buffer for each. A plan that only evaluates alternates between
// two buffers. The gradients of activations also alternate between two buffers, because only those of one
// layer and its predecessor are needed at a time.
class LayeredPlan final : public Plan {
 public:
  LayeredPlan(const Model& model, Device& device, Stream& stream, int64_t rows, const float* parameters,
              float* gradient_sums)
      : device_(device),
        stream_(stream),
        model_(model),
        rows_(rows),
        parameters_(parameters),
        gradient_sums_(gradient_sums) {}

  absl::Status Initialize(const InputScaling& scaling);

  int64_t rows() const override { return rows_; }
  absl::Status Upload(const HostBatch& batch) override;
  absl::Status AwaitUploads() override;
  absl::Status TakeBatch() override;
  absl::Status Forward() override;
  absl::Status Backward(ReadyCallback ready) override;
  absl::StatusOr<LossResult> Loss() override;
  absl::Status EnqueueLoss(LossResult* host) override;
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string Describe() const override;

 private:
  absl::Status CheckBatch(const HostBatch& batch) const;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes);
  float* Activation(size_t i) { return activations_[training() ? i : i % 2]->floats(); }
  float* Gradient(size_t layer) { return training() ? gradients_[layer % 2]->floats() : nullptr; }
  bool training() const { return gradient_sums_ != nullptr; }

  Device& device_;
  Stream& stream_;
  const Model model_;
  const int64_t rows_;
  const float* const parameters_;
  float* const gradient_sums_;

  std::unique_ptr<InputConversionPrimitive> conversion_;
  std::vector<std::unique_ptr<PlanLayer>> layers_;  // In the order of model_.layers().
  std::unique_ptr<SoftmaxCrossEntropyPrimitive> loss_;
  std::vector<std::unique_ptr<Event>> ready_;  // In the order of ready_order().

  std::unique_ptr<BatchUploads> uploads_;  // Null if the device reads host memory.
  HostBatch batch_;  // The batch that Forward reads, in host memory or in device memory of uploads_.
  std::vector<std::unique_ptr<Buffer>> activations_;
  std::array<std::unique_ptr<Buffer>, 2> gradients_;  // [rows, widest layer's out]
  std::unique_ptr<Buffer> loss_result_;
  int64_t workspace_bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<Buffer>> LayeredPlan::Allocate(int64_t bytes) {
  workspace_bytes_ += bytes;
  return device_.Allocate(bytes, MemoryKind::kDevice);
}

absl::Status LayeredPlan::Initialize(const InputScaling& scaling) {
  const int64_t row_bytes = rows_ * sizeof(float);
  TETHYS_ASSIGN_OR_RETURN(conversion_, device_.CreateInputConversion(rows_ * model_.sample_elements(),
                                                                     scaling.mean, scaling.deviation));
  TETHYS_ASSIGN_OR_RETURN(loss_, device_.CreateSoftmaxCrossEntropy(rows_, model_.classes()));
  TETHYS_ASSIGN_OR_RETURN(loss_result_, Allocate(sizeof(LossResult)));
  if (!device_.reads_host_memory()) {
    TETHYS_ASSIGN_OR_RETURN(uploads_,
                            BatchUploads::Create(device_, stream_, {rows_, model_.sample_elements()}));
    workspace_bytes_ += uploads_->bytes();
    batch_ = uploads_->batch();
  }
  int64_t widest = 0;
  for (const Model::Layer& layer : model_.layers()) {
    TETHYS_ASSIGN_OR_RETURN(layers_.emplace_back(),
                            PlanLayer::Create(layer, device_, rows_, parameters_, gradient_sums_));
    workspace_bytes_ += layers_.back()->workspace_bytes();
    widest = std::max(widest, layer.out);
  }
  for (const int64_t elements : ActivationBuffers(model_, training())) {
    TETHYS_ASSIGN_OR_RETURN(activations_.emplace_back(), Allocate(row_bytes * elements));
  }
  if (!training()) return absl::OkStatus();
  for (auto& gradients : gradients_) {
    TETHYS_ASSIGN_OR_RETURN(gradients, Allocate(row_bytes * widest));
  }
  for (size_t i = 0; i < model_.ready_order().size(); ++i) {
    TETHYS_ASSIGN_OR_RETURN(ready_.emplace_back(), device_.CreateEvent());
  }
  return absl::OkStatus();
}

absl::Status LayeredPlan::CheckBatch(const HostBatch& batch) const {
  if (batch.rows != rows_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch.rows, " rows was given to a plan for ", rows_, ": pad it"));
  }
  for (int64_t r = 0; r < rows_; ++r) {
    if (batch.labels[r] < 0 || batch.labels[r] >= model_.classes()) {
      return absl::InvalidArgumentError(absl::StrCat("row ", r, " of the batch has label ", batch.labels[r],
                                                     ", which is not in [0, ", model_.classes(), ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status LayeredPlan::Upload(const HostBatch& batch) {
  TETHYS_RETURN_IF_ERROR(CheckBatch(batch));
  if (uploads_ != nullptr) return uploads_->Upload(batch);
  batch_ = batch;
  return absl::OkStatus();
}

absl::Status LayeredPlan::AwaitUploads() {
  return uploads_ != nullptr ? uploads_->AwaitUploads() : absl::OkStatus();
}

absl::Status LayeredPlan::TakeBatch() { return uploads_ != nullptr ? uploads_->Take() : absl::OkStatus(); }

absl::Status LayeredPlan::Forward() {
  TETHYS_RETURN_IF_ERROR(conversion_->Run(stream_, batch_.inputs, Activation(0)));
  for (size_t i = 0; i < layers_.size(); ++i) {
    TETHYS_RETURN_IF_ERROR(layers_[i]->Forward(stream_, Activation(i), Activation(i + 1)));
  }
  return loss_->Run(stream_, Activation(layers_.size()), batch_.labels, batch_.weights,
                    Gradient(layers_.size() - 1), static_cast<LossResult*>(loss_result_->data()));
}

absl::Status LayeredPlan::Backward(ReadyCallback ready) {
  TETHYS_CHECK(training(), "this plan was compiled without gradients");
  const size_t first = model_.first_layer_with_variables();
  size_t index = 0;
  for (size_t i = layers_.size(); i-- > first;) {
    TETHYS_RETURN_IF_ERROR(layers_[i]->Backward(stream_, Activation(i), Activation(i + 1), Gradient(i),
                                                i == first ? nullptr : Gradient(i - 1)));
    if (!model_.layers()[i].has_variables()) continue;
    TETHYS_RETURN_IF_ERROR(ready_[index]->Record(stream_));
    TETHYS_RETURN_IF_ERROR(ready(static_cast<int64_t>(index), *ready_[index]));
    ++index;
  }
  return absl::OkStatus();
}

absl::StatusOr<LossResult> LayeredPlan::Loss() {
  LossResult result;
  TETHYS_RETURN_IF_ERROR(EnqueueLoss(&result));
  TETHYS_RETURN_IF_ERROR(stream_.Synchronize());
  return result;
}

absl::Status LayeredPlan::EnqueueLoss(LossResult* host) {
  return device_.CopyToHost(stream_, host, loss_result_->data(), sizeof(*host));
}

std::string LayeredPlan::Describe() const {
  std::string text = absl::StrCat(device_.Describe(), ", ", rows_, " rows\n");
  for (size_t i = 0; i < layers_.size(); ++i) {
    absl::StrAppend(&text, model_.layers()[i].name, ": ", layers_[i]->Describe(), "\n");
  }
  return text;
}

}  // namespace

std::vector<int64_t> ActivationBuffers(const Model& model, bool trains) {
  std::vector<int64_t> elements = {model.sample_elements()};
  for (const Model::Layer& layer : model.layers()) elements.push_back(layer.out);
  if (trains) return elements;
  std::vector<int64_t> turns(2);
  for (size_t i = 0; i < elements.size(); ++i) turns[i % 2] = std::max(turns[i % 2], elements[i]);
  return turns;
}

absl::StatusOr<std::unique_ptr<Plan>> Plan::Compile(const Model& model, Device& device, Stream& stream,
                                                    int64_t rows, const InputScaling& scaling,
                                                    const float* parameters, float* gradient_sums) {
  int64_t widest = model.sample_elements();
  for (const Model::Layer& layer : model.layers()) widest = std::max(widest, layer.out);
  if (rows < 1 || rows > (int64_t{1} << 31) || widest > (int64_t{1} << 40) / rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch must have 1 row or more and not be too large for memory; it has ", rows,
                     " rows, and the widest layer has ", widest, " elements"));
  }
  auto plan = std::make_unique<LayeredPlan>(model, device, stream, rows, parameters, gradient_sums);
  if (absl::Status status = plan->Initialize(scaling); !status.ok()) {
    return Annotate(status, absl::StrCat("a plan for ", rows, " rows, which ",
                                         gradient_sums != nullptr ? "trains" : "evaluates"));
  }
  return plan;
}

}  // namespace tethys
