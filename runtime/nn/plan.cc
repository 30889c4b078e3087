// The work of a step, for one micro-batch after the other:
//
//   Forward    converts the rows of the micro-batch, runs the layers in their order, then the loss. The loss
//              also writes the gradient of the outputs.
//   Backward   for each layer, from the last to the first: computes values again that the layer needs
//              (Repeat), computes the layer's gradients, adds up the parts of its inputs' gradients
//              (GatherParts), and adds the gradients of its variables to those of earlier micro-batches
//              (AddGradients)
//
// In the last micro-batch, Backward also records an event for each range of ready_order(), once the gradients
// of the range are final.
//
// Both block signals while they run (BlockedSignals).
//
// Invariant: Initialize fixes all primitives and addresses, so on a device that copies batches each step
// enqueues the same work.
#include "runtime/nn/plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/blocked_signals.h"
#include "runtime/nn/batch_uploads.h"
#include "runtime/nn/confusion_counts.h"
#include "runtime/nn/memory_plan.h"
#include "runtime/nn/plan_node.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

class ModelPlan final : public Plan {
 public:
  ModelPlan(const Model& model, Device& device, Stream& stream, const PlanOptions& options,
            const PlanMemory& memory)
      : device_(device),
        stream_(stream),
        model_(model),
        micro_batches_(options.micro_batches),
        rows_(MicroBatchRows(options.rows, micro_batches_)),
        options_(options),
        memory_(memory) {}

  absl::Status Initialize();

  int64_t rows() const override { return micro_batches_ * rows_; }
  int64_t micro_batches() const override { return micro_batches_; }
  absl::Status Upload(const HostBatch& batch) override;
  absl::Status AwaitUploads() override;
  absl::Status DropBatches() override;
  absl::Status TakeBatch() override;
  absl::Status Forward(int64_t micro_batch) override;
  absl::Status Backward(ReadyCallback ready) override;
  absl::Status EnqueueStepNumbers(const StepNumbers* host) override;
  using Plan::EnqueueStatistics;
  absl::Status EnqueueStatistics(const int32_t* refused, int64_t offset) override;
  absl::StatusOr<LossResult> Loss() override;
  absl::Status EnqueueLoss(LossResult* host) override;
  absl::Status ReadOutputs(float* host) override;
  absl::StatusOr<std::vector<int64_t>> TakeConfusion() override;
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string Describe() const override;

 private:
  absl::Status CheckBatch(const HostBatch& batch) const;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes);
  absl::Status CreateStepNumbers();
  absl::Status CreateScratch();
  absl::Status CreateNode(int index, const StepMemory& memory);
  absl::Status CompileLayer(int index, absl::Span<const VariableMemory> variables);
  absl::Status CreateBackward(int index, const StepMemory& memory);
  // True if the layer runs as in training. A frozen layer that backward does not reach runs as in an
  // evaluation: batch normalisation then uses the moving statistics.
  bool TrainsLayer(int index) const {
    return training() && (IsTrainable(model_.layers()[index].config) || model_.graph().runs_backward(index));
  }
  // The memory at this position of the activations; null for StepMemory::kAbsent.
  void* At(int64_t begin) {
    if (begin == StepMemory::kAbsent) return nullptr;
    return static_cast<char*>(activations_->data()) + ActivationBytes(begin);
  }
  // Bytes of `elements` activations.
  int64_t ActivationBytes(int64_t elements) const { return elements * BytesOf(device_.activation_type()); }
  // The address from which backward reads a value.
  void* BackwardValue(int value, const StepMemory& memory) {
    return At(memory.again[value] != StepMemory::kAbsent ? memory.again[value] : memory.values[value]);
  }
  // Computes the layer's output again, for backward.
  absl::Status Repeat(const PlanNode& node);
  // Called after Backward of the layer. If several layers use one of its inputs, adds up what each of them
  // contributes to the gradient of that input.
  absl::Status GatherParts(int index);
  // Adds the gradients of the layer's variables to the gradients of earlier micro-batches.
  absl::Status AddGradients(const PlanNode& node);
  bool training() const { return memory_.gradient_sums != nullptr; }

  Device& device_;
  Stream& stream_;
  const Model model_;
  const int64_t micro_batches_;
  const int64_t rows_;  // Rows of one micro-batch.
  const PlanOptions options_;
  const PlanMemory memory_;

  std::unique_ptr<InputConversionPrimitive> conversion_;
  std::vector<PlanNode> nodes_;  // One node for each layer, in the order of model_.layers().
  std::unique_ptr<LossPrimitive> loss_;
  std::vector<std::unique_ptr<Event>> ready_;  // One event for each range of ready_order().

  std::unique_ptr<BatchUploads> uploads_;  // Null if the device reads host memory.
  HostBatch batch_;  // The batch that Forward reads, in host memory or in device memory of uploads_.
  std::unique_ptr<Buffer> own_activations_;  // Null if the activations are in memory that plans share.
  Buffer* activations_ = nullptr;
  void* batch_values_ = nullptr;  // The converted batch.
  void* outputs_ = nullptr;
  void* doutputs_ = nullptr;
  std::unique_ptr<Buffer> losses_;              // One LossResult for each micro-batch.
  std::unique_ptr<ConfusionCounts> confusion_;  // Null if the plan does not count a confusion matrix.
  std::unique_ptr<Buffer> step_numbers_;  // One StepNumbers for each micro-batch; null if no layer uses them.
  // The gradients, for one micro-batch, of the layer whose backward pass runs. Null if there is one
  // micro-batch.
  std::unique_ptr<Buffer> scratch_;
  int64_t micro_batch_ = 0;  // The micro-batch of the last Forward.
  int64_t workspace_bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<Buffer>> ModelPlan::Allocate(int64_t bytes) {
  workspace_bytes_ += bytes;
  return device_.Allocate(bytes, MemoryKind::kDevice);
}

absl::Status ModelPlan::Initialize() {
  TETHYS_ASSIGN_OR_RETURN(conversion_,
                          device_.CreateInputConversion(rows_ * model_.sample_elements(), options_.scaling));
  TETHYS_ASSIGN_OR_RETURN(loss_, model_.loss().Compile(device_, rows_, training()));
  TETHYS_ASSIGN_OR_RETURN(losses_, Allocate(micro_batches_ * sizeof(LossResult)));
  if (!device_.reads_host_memory()) {
    TETHYS_ASSIGN_OR_RETURN(
        uploads_, BatchUploads::Create(device_, stream_, model_.batch_layout(rows(), options_.scaling.type)));
    workspace_bytes_ += uploads_->bytes();
    batch_ = uploads_->batch();
  }
  const StepMemory memory = PlanStepMemory(model_.graph(), rows_, training(), options_.recomputes);
  const int64_t activation_bytes = ActivationBytes(memory.elements);
  activations_ = memory_.activations;
  if (activations_ == nullptr) {
    TETHYS_ASSIGN_OR_RETURN(own_activations_, Allocate(activation_bytes));
    activations_ = own_activations_.get();
  } else {
    workspace_bytes_ += activation_bytes;
  }
  TETHYS_CHECK(activations_->bytes() >= activation_bytes,
               "the shared activations are too small for the plan");
  batch_values_ = At(memory.values.front());
  outputs_ = At(memory.values.back());
  doutputs_ = At(memory.gradients.back());
  if (const int64_t classes = model_.loss().confusion_classes(); classes > 0 && !training()) {
    TETHYS_ASSIGN_OR_RETURN(confusion_, ConfusionCounts::Create(device_, stream_, classes));
    workspace_bytes_ += confusion_->bytes();
  }
  if (training()) TETHYS_RETURN_IF_ERROR(CreateStepNumbers());
  if (training() && micro_batches_ > 1) TETHYS_RETURN_IF_ERROR(CreateScratch());
  nodes_.resize(model_.layers().size());
  for (int i = 0; i < model_.graph().layer_count(); ++i) TETHYS_RETURN_IF_ERROR(CreateNode(i, memory));
  if (!training()) return absl::OkStatus();
  for (size_t i = 0; i < model_.ready_order().size(); ++i) {
    TETHYS_ASSIGN_OR_RETURN(ready_.emplace_back(), device_.CreateEvent());
  }
  return absl::OkStatus();
}

absl::Status ModelPlan::CreateStepNumbers() {
  const bool used =
      std::any_of(model_.layers().begin(), model_.layers().end(),
                  [](const Model::Layer& layer) { return layer.operation->uses_step_numbers(); });
  if (!used) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(step_numbers_, Allocate(micro_batches_ * sizeof(StepNumbers)));
  const std::vector<StepNumbers> first(micro_batches_);
  TETHYS_RETURN_IF_ERROR(EnqueueStepNumbers(first.data()));
  return stream_.Synchronize();
}

absl::Status ModelPlan::CreateScratch() {
  int64_t elements = 0;
  for (const Model::Layer& layer : model_.layers()) {
    if (layer.variables.empty()) continue;
    elements = std::max(elements, layer.variables.back().end() - layer.variables.front().begin);
  }
  TETHYS_ASSIGN_OR_RETURN(scratch_, Allocate(elements * kFloatBytes));
  return absl::OkStatus();
}

absl::Status ModelPlan::CreateNode(int index, const StepMemory& memory) {
  PlanNode& node = nodes_[index];
  const Model::Layer& layer = model_.layers()[index];
  std::vector<VariableMemory> variables;
  for (const Range& range : layer.variables) {
    float* const sum = training() ? memory_.gradient_sums + range.begin : nullptr;
    float* part = sum;
    if (scratch_ != nullptr) {
      part = scratch_->floats() + (range.begin - layer.variables.front().begin);
      if (layer.trains()) {
        TETHYS_ASSIGN_OR_RETURN(auto add, device_.Create(SumShape{.count = range.count}));
        node.added.push_back({.part = part, .sum = sum, .elements = range.count, .add = std::move(add)});
      }
    }
    variables.push_back({memory_.parameters + range.begin, part});
  }
  TETHYS_RETURN_IF_ERROR(CompileLayer(index, variables));
  for (const int input : model_.graph().layers()[index].inputs) {
    node.x.push_back(At(memory.values[input]));
    node.x_backward.push_back(BackwardValue(input, memory));
  }
  node.y = At(memory.values[index + 1]);
  node.y_again = BackwardValue(index + 1, memory);
  node.runs_forward = model_.graph().runs_forward(index);
  const bool in_place = node.x[0] == node.y && node.x_backward[0] == node.y_again;
  TETHYS_CHECK(node.runs_forward || in_place, "a relu that is left out must be in place");
  return training() && model_.graph().runs_backward(index) ? CreateBackward(index, memory) : absl::OkStatus();
}

absl::Status ModelPlan::CompileLayer(int index, absl::Span<const VariableMemory> variables) {
  const Model::Layer& layer = model_.layers()[index];
  std::vector<float*> statistics;
  for (const Range& range : layer.statistics) statistics.push_back(memory_.statistics + range.begin);
  const auto* const step =
      step_numbers_ == nullptr ? nullptr : static_cast<const StepNumbers*>(step_numbers_->data());
  const int64_t copies = step != nullptr && layer.operation->uses_step_numbers() ? micro_batches_ : 1;
  for (int64_t i = 0; i < copies; ++i) {
    auto& compiled = nodes_[index].layers.emplace_back();
    TETHYS_ASSIGN_OR_RETURN(compiled, layer.operation->Compile({.device = device_,
                                                                .rows = rows_,
                                                                .trains = TrainsLayer(index),
                                                                .groups = options_.groups,
                                                                .sums = options_.sums,
                                                                .seed = options_.seed,
                                                                .step = step == nullptr ? nullptr : step + i,
                                                                .later_part = i > 0,
                                                                .relu = model_.graph().applies_relu(index),
                                                                .variables = variables,
                                                                .statistics = statistics}));
    workspace_bytes_ += compiled->workspace_bytes();
  }
  return absl::OkStatus();
}

absl::Status ModelPlan::CreateBackward(int index, const StepMemory& memory) {
  PlanNode& node = nodes_[index];
  const GraphLayer& layer = model_.graph().layers()[index];
  const std::vector<GradientPart>& parts = model_.graph().gradient_parts(index);
  for (const int repeated : memory.repeats[index]) {
    if (nodes_[repeated].runs_forward) node.repeats.push_back(repeated);
  }
  node.dy = At(memory.gradients[index + 1]);
  for (size_t j = 0; j < layer.inputs.size(); ++j) {
    const int input = layer.inputs[j];
    node.elements.push_back(rows_ * model_.graph().elements(input));
    node.gradients.push_back(At(memory.gradients[input]));
    node.dx.push_back(parts[j] == GradientPart::kWritten ? node.gradients[j] : At(memory.parts[index][j]));
    std::unique_ptr<SumPrimitive>& sum = node.sums.emplace_back();
    if (parts[j] != GradientPart::kAdded) continue;
    TETHYS_ASSIGN_OR_RETURN(
        sum, device_.Create(SumShape{.count = node.elements[j], .type = device_.activation_type()}));
  }
  return absl::OkStatus();
}

absl::Status ModelPlan::CheckBatch(const HostBatch& batch) const {
  if (batch.rows != rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch of ", batch.rows, " rows was given to a plan for ", rows(), " rows: pad the batch"));
  }
  return model_.loss().CheckLabels(
      absl::MakeConstSpan(batch.labels, rows() * model_.loss().labels().elements()));
}

absl::Status ModelPlan::Upload(const HostBatch& batch) {
  TETHYS_RETURN_IF_ERROR(CheckBatch(batch));
  if (uploads_ != nullptr) return uploads_->Upload(batch);
  batch_ = batch;
  return absl::OkStatus();
}

absl::Status ModelPlan::AwaitUploads() {
  return uploads_ != nullptr ? uploads_->AwaitUploads() : absl::OkStatus();
}

absl::Status ModelPlan::DropBatches() { return uploads_ != nullptr ? uploads_->Drop() : absl::OkStatus(); }

absl::Status ModelPlan::TakeBatch() { return uploads_ != nullptr ? uploads_->Take() : absl::OkStatus(); }

absl::Status ModelPlan::Forward(int64_t micro_batch) {
  const BlockedSignals blocked;
  micro_batch_ = micro_batch;
  const int64_t row = micro_batch * rows_;
  const float* const weights = batch_.weights + row;
  const int64_t sample_bytes = model_.sample_elements() * BytesOf(options_.scaling.type);
  TETHYS_RETURN_IF_ERROR(conversion_->Run(stream_, batch_.inputs + row * sample_bytes, batch_values_));
  for (const PlanNode& node : nodes_) {
    if (!node.runs_forward) continue;
    TETHYS_RETURN_IF_ERROR(
        node.Of(micro_batch).Forward(stream_, {.x = node.x, .y = node.y, .row_weights = weights}));
  }
  return loss_->Run(stream_, {.outputs = outputs_,
                              .labels = batch_.labels + row * model_.loss().labels().elements(),
                              .weights = weights,
                              .doutputs = doutputs_,
                              .result = static_cast<LossResult*>(losses_->data()) + micro_batch,
                              .confusion = confusion_ == nullptr ? nullptr : confusion_->data()});
}

absl::Status ModelPlan::Backward(ReadyCallback ready) {
  const BlockedSignals blocked;
  TETHYS_CHECK(training(), "this plan was compiled without gradients");
  size_t index = 0;
  for (int i = model_.graph().layer_count(); i-- > 0;) {
    if (!model_.graph().runs_backward(i)) continue;
    const PlanNode& node = nodes_[i];
    for (const int layer : node.repeats) TETHYS_RETURN_IF_ERROR(Repeat(nodes_[layer]));
    TETHYS_RETURN_IF_ERROR(node.Of(micro_batch_)
                               .Backward(stream_, {.x = node.x_backward,
                                                   .y = node.y_again,
                                                   .dy = node.dy,
                                                   .dx = absl::MakeConstSpan(node.dx)}));
    TETHYS_RETURN_IF_ERROR(GatherParts(i));
    TETHYS_RETURN_IF_ERROR(AddGradients(node));
    if (!model_.layers()[i].trains() || micro_batch_ + 1 < micro_batches_) continue;
    TETHYS_RETURN_IF_ERROR(ready_[index]->Record(stream_));
    TETHYS_RETURN_IF_ERROR(ready(static_cast<int64_t>(index), *ready_[index]));
    ++index;
  }
  return absl::OkStatus();
}

absl::Status ModelPlan::Repeat(const PlanNode& node) {
  return node.Of(micro_batch_)
      .Repeat(
          stream_,
          {.x = node.x_backward, .y = node.y_again, .row_weights = batch_.weights + micro_batch_ * rows_});
}

absl::Status ModelPlan::GatherParts(int index) {
  const PlanNode& node = nodes_[index];
  const std::vector<GradientPart>& parts = model_.graph().gradient_parts(index);
  for (size_t j = 0; j < parts.size(); ++j) {
    // If the layer passes gradients on and so has written no part, the part is the gradient of the output.
    const void* const part = node.dx[j] != nullptr ? node.dx[j] : node.dy;
    if (parts[j] == GradientPart::kCopied) {
      TETHYS_RETURN_IF_ERROR(
          device_.CopyOnDevice(stream_, node.gradients[j], part, ActivationBytes(node.elements[j])));
    } else if (parts[j] == GradientPart::kAdded) {
      TETHYS_RETURN_IF_ERROR(node.sums[j]->Run(stream_, node.gradients[j], part, node.gradients[j]));
    }
  }
  return absl::OkStatus();
}

absl::Status ModelPlan::AddGradients(const PlanNode& node) {
  for (const AddedGradient& gradient : node.added) {
    TETHYS_RETURN_IF_ERROR(
        micro_batch_ == 0
            ? device_.CopyOnDevice(stream_, gradient.sum, gradient.part, gradient.elements * kFloatBytes)
            : gradient.add->Run(stream_, gradient.sum, gradient.part, gradient.sum));
  }
  return absl::OkStatus();
}

absl::Status ModelPlan::EnqueueStepNumbers(const StepNumbers* host) {
  if (step_numbers_ == nullptr) return absl::OkStatus();
  return device_.CopyToDevice(stream_, step_numbers_->data(), host, step_numbers_->bytes());
}

absl::Status ModelPlan::EnqueueStatistics(const int32_t* refused, int64_t offset) {
  if (!training() || model_.statistics().variables().empty()) return absl::OkStatus();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!model_.layers()[i].trains()) continue;
    for (const auto& layer : nodes_[i].layers) {
      TETHYS_RETURN_IF_ERROR(layer->UpdateStatistics(stream_, refused, offset));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LossResult> ModelPlan::Loss() {
  TETHYS_CHECK(micro_batches_ == 1,
               "Loss needs a plan with one micro-batch; EnqueueLoss copies the losses of several");
  LossResult result;
  TETHYS_RETURN_IF_ERROR(EnqueueLoss(&result));
  TETHYS_RETURN_IF_ERROR(stream_.Synchronize());
  return result;
}

absl::Status ModelPlan::EnqueueLoss(LossResult* host) {
  return device_.CopyToHost(stream_, host, losses_->data(), losses_->bytes());
}

absl::Status ModelPlan::ReadOutputs(float* host) {
  const int64_t count = rows_ * model_.outputs();
  if (device_.activation_type() == ElementType::kFloat32) {
    TETHYS_RETURN_IF_ERROR(device_.CopyToHost(stream_, host, outputs_, ActivationBytes(count)));
    return stream_.Synchronize();
  }
  std::vector<Bfloat16> outputs(count);
  TETHYS_RETURN_IF_ERROR(device_.CopyToHost(stream_, outputs.data(), outputs_, ActivationBytes(count)));
  TETHYS_RETURN_IF_ERROR(stream_.Synchronize());
  std::transform(outputs.begin(), outputs.end(), host, Widened);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ModelPlan::TakeConfusion() {
  return confusion_ != nullptr ? confusion_->Take() : std::vector<int64_t>();
}

std::string ModelPlan::Describe() const {
  std::string text = absl::StrCat(device_.Describe(), ", ", rows_, " rows",
                                  micro_batches_ > 1 ? absl::StrCat(" at a time of ", rows()) : "", "\n");
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string algorithms = nodes_[i].layers.front()->Describe();
    absl::StrAppend(&text, model_.layers()[i].name(), ": ", model_.layers()[i].operation->Describe(),
                    algorithms.empty() ? "" : ": ", algorithms, "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<int64_t> ActivationElements(const Model& model, int64_t rows, bool trains, bool recomputes) {
  TETHYS_RETURN_IF_ERROR(CheckRows(model.graph(), rows));
  return PlanStepMemory(model.graph(), rows, trains, recomputes).elements;
}

absl::StatusOr<std::unique_ptr<Plan>> Plan::Compile(const Model& model, Device& device, Stream& stream,
                                                    const PlanOptions& options, const PlanMemory& memory) {
  TETHYS_RETURN_IF_ERROR(CheckRows(model.graph(), options.rows));
  TETHYS_CHECK(options.micro_batches >= 1 && options.micro_batches <= options.rows, "a batch of ",
               options.rows, " rows has no ", options.micro_batches, " micro-batches");
  TETHYS_CHECK(memory.statistics != nullptr || model.statistics().variables().empty(),
               "the plan has no memory for the model's moving statistics");
  auto plan = std::make_unique<ModelPlan>(model, device, stream, options, memory);
  if (absl::Status status = plan->Initialize(); !status.ok()) {
    return Annotate(status, absl::StrCat("a plan with batches of ", options.rows, " rows, for ",
                                         memory.gradient_sums != nullptr ? "training" : "evaluation"));
  }
  return plan;
}

}  // namespace tethys
