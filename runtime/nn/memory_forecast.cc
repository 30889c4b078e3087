#include "runtime/nn/memory_forecast.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "runtime/nn/memory_plan.h"
#include "runtime/nn/plan.h"
#include "runtime/shape/job_shape.h"
#include "runtime/tensor/batch.h"

namespace tethys {
namespace {

constexpr int64_t kLeastEvaluationRows = 256;
// Limit on the activations of kLeastEvaluationRows rows. If these need more bytes, fewer rows are evaluated
// at a time.
constexpr int64_t kMostEvaluationBytes = int64_t{256} << 20;
constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kBfloat16Bytes = 2;
// The buffers of BatchUploads: two slots and the buffer that the step reads.
constexpr int64_t kBatchesOnDevice = 3;
// Bytes for the loss and counts of a step, and for the optimizer's rates and its flag of non-finite
// gradients.
constexpr int64_t kStepResults = 64;
// Limits the rows of a batch, so that sums stay below 2^63. No device has memory for more elements than this.
constexpr int64_t kMostElements = int64_t{1} << 52;

// Elements of one row's values, and of their gradients if the plan trains.
int64_t RowElements(const Model& model, bool trains) {
  return PlanStepMemory(model.graph(), 1, trains).elements;
}

// Adds the memory of one plan, for training or for evaluation, that the two plans do not share. `rows` are
// the rows of a micro-batch.
void AddPlan(const Model& model, const MemoryNeeds& needs, int64_t rows, int64_t micro_batches,
             MemoryForecast& forecast) {
  forecast.activations += kStepResults * micro_batches;
  if (!needs.on_gpu) {
    forecast.batches += needs.host_batches * model.batch_layout(rows * micro_batches, needs.inputs).bytes();
    return;
  }
  forecast.batches += kBatchesOnDevice * model.batch_layout(rows * micro_batches, needs.inputs).bytes();
  for (int i = 0; i < model.graph().layer_count(); ++i) {
    const Operation& operation = *model.layers()[i].operation;
    const GpuNeeds layer = operation.gpu_needs(needs.groups);
    forecast.own_workspaces += layer.most_workspace * (operation.uses_step_numbers() ? micro_batches : 1);
    forecast.shared_workspace = std::max(forecast.shared_workspace, layer.most_shared_workspace);
    if (needs.activations != ElementType::kBfloat16 || !layer.copies_weights) continue;
    forecast.copies += model.layers()[i].variables.front().count * kBfloat16Bytes;
  }
}

// The largest number of elements, variables and padding, that one layer has in the arena.
int64_t LargestLayer(const Model& model) {
  int64_t largest = 0;
  for (const Model::Layer& layer : model.layers()) {
    if (layer.variables.empty()) continue;
    largest = std::max(largest, layer.variables.back().end() - layer.variables.front().begin);
  }
  return largest;
}

std::string Mebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

// ", or micro_batches: 4" if the batch fits when it is computed in 4 parts; otherwise empty.
std::string FittingParts(const Model& model, MemoryNeeds needs, int64_t free_bytes) {
  const int64_t batch = needs.rows;
  const auto fits = [&](int64_t parts) {
    needs.micro_batches = parts;
    const MemoryForecast forecast = ForecastMemory(model, needs);
    return forecast.total() + forecast.workspaces() <= free_bytes;
  };
  for (int64_t parts = 2 * needs.micro_batches; parts <= batch; parts *= 2) {
    if (fits(parts)) return absl::StrCat(", or micro_batches: ", parts);
  }
  return "";
}

// Returns the advice at the end of the message that refuses a job.
std::string Remedy(const Model& model, const MemoryNeeds& needs, int64_t free_bytes) {
  if (const int64_t sure = LargestBatch(model, needs, free_bytes, true); sure > 0) {
    return absl::StrCat("a batch of ", sure, " samples per worker fits",
                        FittingParts(model, needs, free_bytes));
  }
  if (const int64_t perhaps = LargestBatch(model, needs, free_bytes, false); perhaps > 0) {
    return absl::StrCat(
        "a batch of ", perhaps,
        " samples per worker fits if cuBLAS and cuDNN take little workspace; or end the other processes on "
        "this GPU (nvidia-smi lists them)");
  }
  return "no batch fits: end the other processes on this GPU (nvidia-smi lists them), or take a smaller "
         "model";
}

}  // namespace

int64_t EvaluationRows(const Model& model, int64_t rows) {
  const int64_t fitting = kMostEvaluationBytes / kFloatBytes / RowElements(model, false);
  return std::max(rows, std::min(kLeastEvaluationRows, fitting));
}

MemoryNeeds MemoryNeedsOf(const proto::JobPlan& plan, proto::Device::Kind device) {
  const bool on_gpu = device == proto::Device::CUDA;
  return {.rows = plan.batch_per_worker(),
          .micro_batches = std::max(1, plan.job().micro_batches()),
          .groups = std::max(1, plan.job().strategy().local().virtual_replicas()),
          .inputs = plan.float_inputs() ? ValueType::kFloat : ValueType::kByte,
          .slots = TraitsOf(plan.job()).servers() ? 0 : plan.slot_size(),
          .on_gpu = on_gpu,
          .recomputes = plan.job().device().recompute(),
          .activations = on_gpu && plan.job().device().precision() == proto::Device::BF16
                             ? ElementType::kBfloat16
                             : ElementType::kFloat32,
          .bf16_gradients = on_gpu && plan.job().strategy().mirrored().gradients() == proto::Device::BF16};
}

MemoryNeeds MeasuredStepNeeds(const proto::JobPlan& plan, int64_t rows) {
  // One batch that the step reads, and one that the loader may build at that time.
  constexpr int64_t kBatchesOfLoader = 2;
  MemoryNeeds needs = MemoryNeedsOf(plan, plan.job().device().kind());
  needs.rows = rows;
  needs.groups = 1;
  needs.slots = plan.slot_size();
  needs.bf16_gradients = false;
  needs.evaluates = false;
  needs.host_batches = kBatchesOfLoader;
  return needs;
}

MemoryForecast ForecastMemory(const Model& model, const MemoryNeeds& needs) {
  const int64_t arena = model.variables().arena_size() * kFloatBytes;
  MemoryForecast forecast{.parameters = arena, .gradients = arena, .slots = needs.slots * arena};
  forecast.statistics = 2 * model.statistics().arena_size() * kFloatBytes;
  if (needs.bf16_gradients) forecast.copies += model.variables().arena_size() * kBfloat16Bytes;
  const int64_t most_rows = std::max<int64_t>(1, kMostElements / RowElements(model, true));
  const int64_t rows = MicroBatchRows(std::min(needs.rows, most_rows), needs.micro_batches);
  if (needs.micro_batches > 1) forecast.gradients += LargestLayer(model) * kFloatBytes;
  const int64_t evaluated = needs.evaluates ? EvaluationRows(model, rows) : 0;
  int64_t elements = PlanStepMemory(model.graph(), rows, true, needs.recomputes).elements;
  if (needs.evaluates) {
    elements = std::max(elements, PlanStepMemory(model.graph(), evaluated, false).elements);
  }
  forecast.activations = elements * BytesOf(needs.activations);
  AddPlan(model, needs, rows, needs.micro_batches, forecast);
  if (needs.evaluates) AddPlan(model, needs, evaluated, 1, forecast);
  return forecast;
}

int64_t LargestBatch(const Model& model, MemoryNeeds needs, int64_t bytes, bool with_workspaces) {
  const auto fits = [&](int64_t rows) {
    needs.rows = rows;
    const MemoryForecast forecast = ForecastMemory(model, needs);
    return forecast.total() + (with_workspaces ? forecast.workspaces() : 0) <= bytes;
  };
  int64_t fitting = 0, too_many = bytes / BytesOf(needs.activations) / model.graph().widest() + 1;
  while (fitting + 1 < too_many) {
    const int64_t middle = fitting + (too_many - fitting) / 2;
    (fits(middle) ? fitting : too_many) = middle;
  }
  return fitting;
}

absl::Status CheckDeviceMemory(Device& device, const Model& model, const MemoryNeeds& needs) {
  TETHYS_ASSIGN_OR_RETURN(const absl::optional<int64_t> free_bytes, device.FreeMemory());
  if (!free_bytes.has_value()) return absl::OkStatus();
  const MemoryForecast forecast = ForecastMemory(model, needs);
  if (forecast.total() <= *free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("batches of ", needs.rows, " samples per worker need ", Mebibytes(forecast.total()),
                   " of the memory of ", device.Describe(), " (parameters, gradients and slots ",
                   Mebibytes(forecast.parameters + forecast.gradients + forecast.slots), ", activations ",
                   Mebibytes(forecast.activations + forecast.batches + forecast.copies), "), but ",
                   Mebibytes(*free_bytes), " are free: ", Remedy(model, needs, *free_bytes)));
}

}  // namespace tethys
