#include "workers/replica.h"

#include <algorithm>
#include <utility>

#include "workers/device_memory.h"

namespace tethys {

Replica::Replica(Model model, std::unique_ptr<Device> device, const Clock& clock, Options options)
    : model_(std::move(model)),
      options_(std::move(options)),
      least_micro_batches_(options_.micro_batches),
      clock_(clock),
      device_(std::move(device)) {}

Replica::~Replica() { Detach(); }

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(Model model, std::unique_ptr<Device> device,
                                                         const Clock& clock, Options options) {
  std::unique_ptr<Replica> replica(
      new Replica(std::move(model), std::move(device), clock, std::move(options)));
  TETHYS_RETURN_IF_ERROR(replica->Allocate());
  return replica;
}

absl::Status Replica::CheckReadable(const SampleSpec& spec) const {
  if (spec.elements() != model_.sample_elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "samples are ", ShapeText(spec.shape), ", but the model takes ", ShapeText(model_.sample_shape())));
  }
  if (spec.type == options_.scaling.type) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "samples are ", ValueTypeText(spec.type), ", but Options::scaling is for ",
      ValueTypeText(options_.scaling.type), ": pass what ResolveScaling returns for the samples"));
}

absl::Status Replica::Allocate() {
  if (options_.train != nullptr) TETHYS_RETURN_IF_ERROR(CheckReadable(options_.train->spec()));
  TETHYS_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
  TETHYS_ASSIGN_OR_RETURN(parameters_, AllocateFloats(arena_size()));
  TETHYS_ASSIGN_OR_RETURN(statistics_, AllocateFloats(2 * statistics_size()));
  TETHYS_ASSIGN_OR_RETURN(evaluated_statistics_, AllocateFloats(statistics_size()));
  TETHYS_RETURN_IF_ERROR(AllocateActivations());
  if (options_.evaluation_rows > 0) TETHYS_RETURN_IF_ERROR(CompileEvaluation());
  if (options_.train == nullptr) return absl::OkStatus();
  recorder_ = std::make_unique<StepRecorder>(
      clock_, options_.index, static_cast<int>(model_.ready_order().size()), StepRecorder::kCapacity,
      StepRecorder::kPatience, options_.records_wait,
      options_.records_wait == nullptr ? UndrainedRecords::kDropOldest : UndrainedRecords::kWait);
  TETHYS_ASSIGN_OR_RETURN(phases_, StepPhases::Create(*device_, *stream_, *recorder_));
  return absl::OkStatus();
}

absl::Status Replica::CompileEvaluation() {
  TETHYS_ASSIGN_OR_RETURN(evaluation_plan_,
                          Plan::Compile(model_, *device_, *stream_,
                                        {.rows = options_.evaluation_rows, .scaling = options_.scaling},
                                        {.parameters = parameters_->floats(),
                                         .statistics = evaluated_statistics_->floats(),
                                         .activations = activations_.get()}));
  return absl::OkStatus();
}

// A step and an evaluation never run at the same time, so their plans share memory.
absl::Status Replica::AllocateActivations() {
  int64_t training = 0, evaluation = 0;
  most_rows_ = MicroBatchRows(options_.rows, options_.micro_batches);
  if (options_.rows > 0) {
    TETHYS_ASSIGN_OR_RETURN(training,
                            ActivationElements(model_, most_rows_, /*trains=*/true, options_.recomputes));
  }
  if (options_.evaluation_rows > 0) {
    TETHYS_ASSIGN_OR_RETURN(evaluation,
                            ActivationElements(model_, options_.evaluation_rows, /*trains=*/false));
  }
  const int64_t bytes = std::max(training, evaluation) * BytesOf(device_->activation_type());
  TETHYS_ASSIGN_OR_RETURN(activations_, device_->Allocate(bytes, MemoryKind::kDevice));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Buffer>> Replica::AllocateFloats(int64_t elements) {
  return device_->Allocate(elements * static_cast<int64_t>(sizeof(float)), MemoryKind::kDevice);
}

absl::StatusOr<ReplicaUpdate> Replica::MakeUpdate(const proto::Optimizer& config,
                                                  const LearningRateSchedule& schedule) {
  return ReplicaUpdate::Create(config, TrainableRanges(model_.variables()), schedule, *device_, *stream_,
                               clock_);
}

absl::Status Replica::SetRows(int64_t rows) {
  TETHYS_CHECK(strategy_ == nullptr && evaluation_plan_ == nullptr,
               "the number of rows must not change while there is a strategy or a plan for evaluations");
  options_.rows = rows;
  activations_.reset();  // Freed first, so that the device never holds the old and the new buffer.
  // Later buffers may have other sizes, so memory that the device keeps might not be reused.
  device_->ReleaseUnused();
  return AllocateActivations();
}

absl::Status Replica::FitRows(int64_t rows) {
  TETHYS_CHECK(strategy_ == nullptr && rows > 0, "the number of rows changes beside a strategy");
  options_.rows = rows;
  options_.micro_batches = std::min(rows, least_micro_batches_);
  if (MicroBatchRows(rows, options_.micro_batches) <= most_rows_) return absl::OkStatus();
  const int64_t fitted = most_rows_;
  // The plan that evaluates uses the same memory. It is compiled again when it is needed, so that training
  // does not wait for it.
  evaluation_plan_.reset();
  activations_.reset();
  const absl::Status grown = AllocateActivations();
  if (!absl::IsResourceExhausted(grown)) return grown;
  options_.micro_batches = (rows + fitted - 1) / fitted;
  return AllocateActivations();
}

absl::Status Replica::Attach(std::unique_ptr<Strategy> strategy, bool warm_up) {
  TETHYS_CHECK(strategy_ == nullptr, "a strategy is attached already");
  strategy_ = std::move(strategy);
  traits_ = {};
  const absl::Status prepared = Prepare(warm_up);
  if (!prepared.ok()) Detach();
  return prepared;
}

absl::Status Replica::Prepare(bool warm_up) {
  TETHYS_ASSIGN_OR_RETURN(float* const gradient_sums, GradientSums());
  TETHYS_ASSIGN_OR_RETURN(plan_, Plan::Compile(model_, *device_, *stream_,
                                               {.rows = options_.rows,
                                                .micro_batches = options_.micro_batches,
                                                .scaling = options_.scaling,
                                                .seed = options_.seed,
                                                .groups = options_.groups,
                                                .sums = LayerSums(),
                                                .recomputes = options_.recomputes},
                                               {.parameters = parameters_->floats(),
                                                .gradient_sums = gradient_sums,
                                                .statistics = statistics_->floats(),
                                                .activations = activations_.get()}));
  StepArenas arenas{parameters_->floats(), gradient_sums, arena_size()};
  if (options_.train != nullptr) {
    TETHYS_ASSIGN_OR_RETURN(feed_, BatchFeed::Create(*device_, *plan_, options_.train, options_.feed));
    arenas.update_events = phases_->update_events();
  }
  TETHYS_ASSIGN_OR_RETURN(traits_, strategy_->Prepare(arenas, model_.ready_order()));
  if (options_.train == nullptr) return absl::OkStatus();
  if (warm_up) TETHYS_RETURN_IF_ERROR(WarmUp());
  return CreatePipeline();
}

// An empty batch changes no result: the first step overwrites the gradients of the empty batch, and moving
// statistics change only in EnqueueStatistics.
absl::Status Replica::WarmUp() {
  if (layer_sums_ != nullptr) layer_sums_->SetAside(true);
  TETHYS_RETURN_IF_ERROR(plan_->Upload(feed_->empty_batch()));
  TETHYS_RETURN_IF_ERROR(plan_->TakeBatch());
  for (int64_t i = 0; i < plan_->micro_batches(); ++i) {
    TETHYS_RETURN_IF_ERROR(plan_->Forward(i));
    TETHYS_RETURN_IF_ERROR(plan_->Backward([](int64_t, const Event&) { return absl::OkStatus(); }));
  }
  if (layer_sums_ != nullptr) layer_sums_->SetAside(false);
  return stream_->Synchronize();  // Afterwards the loader may overwrite the batch.
}

// Returns the gradient arena: memory that the strategy allocates, or else the replica's own.
absl::StatusOr<float*> Replica::GradientSums() {
  TETHYS_ASSIGN_OR_RETURN(float* const of_strategy, strategy_->AllocateGradients(arena_size()));
  if (of_strategy != nullptr) return of_strategy;
  if (gradients_ == nullptr) {
    TETHYS_ASSIGN_OR_RETURN(gradients_, AllocateFloats(arena_size()));
  }
  return gradients_->floats();
}

StreamReducer* Replica::LayerSums() {
  StreamReducer* const of_strategy = strategy_->worker_sums();
  if (of_strategy == nullptr || recorder_ == nullptr) return of_strategy;
  layer_sums_ = std::make_unique<MeasuredSums>(*of_strategy, *recorder_, clock_);
  return layer_sums_.get();
}

absl::Status Replica::CreatePipeline() {
  TETHYS_RETURN_IF_ERROR(AlignStatisticsAhead());
  phases_->set_updates_here(traits_.updates_here);
  TETHYS_ASSIGN_OR_RETURN(
      pipeline_, StepPipeline::Create({*plan_, *strategy_, *recorder_, *feed_, *phases_},
                                      {.device = *device_,
                                       .stream = *stream_,
                                       .stream_only = traits_.stream_only,
                                       .stream_exchanges = traits_.stream_exchanges,
                                       .refused = traits_.refused,
                                       .ready_ranges = static_cast<int64_t>(model_.ready_order().size()),
                                       .statistics_ahead = traits_.stream_exchanges ? statistics_size() : 0,
                                       .graphs = options_.graphs}));
  return absl::OkStatus();
}

absl::Status Replica::HaltSteps() {
  if (!exchanges_on_streams() || pipeline_ == nullptr) return absl::OkStatus();
  const absl::Status halted = pipeline_->Halt();
  recorder_->AbandonSteps();
  return halted;
}

absl::Status Replica::EndWork() {
  if (strategy_ == nullptr) return absl::OkStatus();
  return pipeline_ == nullptr ? strategy_->EndWork() : pipeline_->EndWork();
}

void Replica::Detach() {
  if (strategy_ == nullptr) return;
  if (!traits_.stream_exchanges) stream_->Synchronize().IgnoreError();
  pipeline_.reset();
  layer_sums_.reset();
  strategy_.reset();
  if (recorder_ != nullptr) recorder_->AbandonSteps();
  feed_.reset();
  plan_.reset();
}

absl::Status Replica::PrepareEvaluation(const Dataset& dataset, absl::Span<const float> statistics) {
  TETHYS_RETURN_IF_ERROR(CheckReadable(dataset.spec()));
  if (evaluation_plan_ == nullptr && options_.evaluation_rows > 0) {
    TETHYS_RETURN_IF_ERROR(CompileEvaluation());
  }
  if (strategy_ != nullptr) TETHYS_RETURN_IF_ERROR(strategy_->Refresh());
  if (!statistics.empty() || statistics_size() == 0) {
    return CopyStatistics(statistics, *evaluated_statistics_);
  }
  return device_->CopyOnDevice(*stream_, evaluated_statistics_->data(), statistics_->data(),
                               evaluated_statistics_->bytes());
}

absl::StatusOr<proto::EvaluationDone> Replica::Evaluate(std::shared_ptr<const Dataset> dataset, Slice slice,
                                                        absl::Span<const float> statistics) {
  TETHYS_RETURN_IF_ERROR(PrepareEvaluation(*dataset, statistics));
  return tethys::Evaluate(*device_, *evaluation_plan_, std::move(dataset), slice, [this] {
    return options_.may_evaluate == nullptr ? absl::OkStatus() : options_.may_evaluate();
  });
}

absl::Status Replica::Predict(std::shared_ptr<const Dataset> dataset, Slice slice, UseOutputs use,
                              absl::Span<const float> statistics) {
  TETHYS_RETURN_IF_ERROR(PrepareEvaluation(*dataset, statistics));
  return tethys::Predict(*device_, *evaluation_plan_, std::move(dataset), slice, model_.outputs(), use);
}

absl::StatusOr<proto::EvaluationDone> Replica::EvaluateOutputs(std::shared_ptr<const Dataset> dataset,
                                                               Slice slice, UseOutputs use,
                                                               absl::Span<const float> statistics) {
  TETHYS_RETURN_IF_ERROR(PrepareEvaluation(*dataset, statistics));
  return tethys::EvaluateOutputs(*device_, *evaluation_plan_, std::move(dataset), slice, model_.outputs(),
                                 use);
}

absl::Status Replica::FillInitialValues(uint64_t seed) {
  std::vector<float> statistics(statistics_size());
  model_.statistics().FillInitialValues(seed, {0, statistics_size()}, statistics.data());
  TETHYS_RETURN_IF_ERROR(SetStatistics(statistics));
  return FillPart(0, [&](absl::Span<float> values) {
    model_.variables().FillInitialValues(seed, {0, arena_size()}, values.data());
    return absl::OkStatus();
  });
}

absl::Status Replica::CopyStatistics(absl::Span<const float> values, Buffer& to) {
  if (static_cast<int64_t>(values.size()) != statistics_size()) {
    return absl::InvalidArgumentError(absl::StrCat("moving statistics of ", values.size(),
                                                   " elements were given, but the model has ",
                                                   statistics_size()));
  }
  if (values.empty()) return absl::OkStatus();
  return FillDeviceMemory(*device_, *stream_, {to.floats(), values.size()}, [&](absl::Span<float> memory) {
    std::copy(values.begin(), values.end(), memory.begin());
    return absl::OkStatus();
  });
}

absl::Status Replica::SetStatistics(absl::Span<const float> values) {
  TETHYS_RETURN_IF_ERROR(CopyStatistics(values, *statistics_));
  return AlignStatisticsAhead();
}

absl::Status Replica::AlignStatisticsAhead() {
  if (!exchanges_on_streams() || statistics_size() == 0) return absl::OkStatus();
  return device_->CopyOnDevice(*stream_, statistics_->floats() + statistics_size(), statistics_->data(),
                               evaluated_statistics_->bytes());
}

absl::StatusOr<std::vector<float>> Replica::StatisticsOfComputedStep() {
  if (exchanges_on_streams()) return ReadStatisticsAt(statistics_size());
  TETHYS_ASSIGN_OR_RETURN(const std::vector<float> before, ReadStatistics());
  TETHYS_RETURN_IF_ERROR(pipeline_->EnqueueStatisticsOfComputed());
  TETHYS_ASSIGN_OR_RETURN(std::vector<float> after, ReadStatistics());
  TETHYS_RETURN_IF_ERROR(SetStatistics(before));
  return after;
}

absl::StatusOr<std::vector<float>> Replica::ReadStatistics() { return ReadStatisticsAt(0); }

absl::StatusOr<std::vector<float>> Replica::ReadStatisticsAt(int64_t begin) {
  std::vector<float> values;
  if (statistics_size() == 0) return values;
  TETHYS_RETURN_IF_ERROR(ReadDeviceMemory(
      *device_, *stream_, {statistics_->floats() + begin, static_cast<size_t>(statistics_size())},
      [&](absl::Span<const float> memory) {
        values.assign(memory.begin(), memory.end());
        return absl::OkStatus();
      }));
  return values;
}

std::vector<absl::Span<float>> Replica::Parts() {
  std::vector<absl::Span<float>> parts;
  if (strategy_ != nullptr) parts = strategy_->slots();
  parts.insert(parts.begin(), {parameters_->floats(), static_cast<size_t>(arena_size())});
  return parts;
}

absl::Status Replica::FillPart(size_t part, absl::FunctionRef<absl::Status(absl::Span<float>)> fill) {
  return FillRange(part, {0, arena_size()}, fill);
}

absl::Status Replica::FillRange(size_t part, Range range,
                                absl::FunctionRef<absl::Status(absl::Span<float>)> fill) {
  return FillDeviceMemory(*device_, *stream_, Parts()[part].subspan(range.begin, range.count), fill);
}

absl::Status Replica::ReadPart(size_t part, Range range,
                               absl::FunctionRef<absl::Status(absl::Span<const float>)> use) {
  return ReadDeviceMemory(*device_, *stream_, Parts()[part].subspan(range.begin, range.count), use);
}

}  // namespace tethys
