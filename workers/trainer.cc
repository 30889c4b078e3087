#include "workers/trainer.h"

#include <algorithm>
#include <deque>

#include "runtime/cluster/job_plan.h"
#include "runtime/data/sharding.h"
#include "runtime/job/job.h"
#include "runtime/nn/memory_forecast.h"
#include "workers/device_factory.h"
#include "workers/device_memory.h"
#include "workers/segment_pause.h"
#include "workers/strategy_factory.h"

namespace tethys {
namespace {

// Records per message: well below gRPC's limit.
constexpr int64_t kRecordsPerMessage = 1024;

}  // namespace

Trainer::Trainer(const TaskOptions& task, const proto::Setup& setup, TaskSession& session, const Clock& clock)
    : task_(task),
      setup_(setup),
      session_(session),
      clock_(clock),
      leased_(LeasesBatches(setup.plan().job())),
      in_rounds_(setup.plan().job().strategy().parameter_server().has_stale_synchronous()),
      orders_(setup.plan().job().seed(), setup.plan().train_samples()) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TaskOptions& task, const proto::Setup& setup,
                                                         TaskSession& session, RingListener& listener,
                                                         const Clock& clock) {
  std::unique_ptr<Trainer> trainer(new Trainer(task, setup, session, clock));
  TETHYS_RETURN_IF_ERROR(trainer->Build(listener));
  return trainer;
}

absl::Status Trainer::Build(RingListener& listener) {
  const proto::JobPlan& plan = setup_.plan();
  const proto::Job& job = plan.job();
  TETHYS_ASSIGN_OR_RETURN(datasets_, LoadDatasets(job.data()));
  if (datasets_.train->size() != plan.train_samples()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this host's training data has ", datasets_.train->size(), " samples, the job's has ",
                     plan.train_samples(), ": put the same files on every host"));
  }
  TETHYS_ASSIGN_OR_RETURN(scaling_, ResolveScaling(job.data(), *datasets_.train));
  TETHYS_ASSIGN_OR_RETURN(model_,
                          Model::Create(job.model(), datasets_.train->sample_shape(), job.data().classes()));
  if (model_->variables().signature() != plan.model_signature()) {
    return absl::FailedPreconditionError("the model built here has other variables than the job's plan");
  }
  TETHYS_ASSIGN_OR_RETURN(device_, CreateWorkerDevice(task_, setup_));
  TETHYS_RETURN_IF_ERROR(
      CheckDeviceMemory(*device_, *model_, MemoryNeedsOf(plan, DeviceOf(plan, task_.index))));
  TETHYS_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
  TETHYS_ASSIGN_OR_RETURN(strategy_, CreateStrategy(task_, setup_, *model_, *device_, *stream_, listener,
                                                    clock_, [this] { return session_.peers_compute(); }));
  TETHYS_RETURN_IF_ERROR(AllocateGradients());
  TETHYS_RETURN_IF_ERROR(BuildPlans());
  TETHYS_ASSIGN_OR_RETURN(feed_, BatchFeed::Create(*device_, *plan_, datasets_.train,
                                                   {.prefetch_batches = job.data().prefetch_batches(),
                                                    .slow_down = task_.slow_down}));
  recorder_ = std::make_unique<StepRecorder>(
      clock_, task_.index, static_cast<int>(model_->ready_order().size()), StepRecorder::kCapacity,
      StepRecorder::kPatience, [this] { session_.BeatSoon(); });
  steps_ = leased_ ? 0 : setup_.state().step();
  TETHYS_RETURN_IF_ERROR(PrepareStrategy());
  return TakeParameters();
}

// Where the strategy would rather have them.
absl::Status Trainer::AllocateGradients() {
  TETHYS_ASSIGN_OR_RETURN(gradient_sums_, strategy_->AllocateGradients(ArenaSize()));
  if (gradient_sums_ != nullptr) return absl::OkStatus();
  const int64_t bytes = ArenaSize() * static_cast<int64_t>(sizeof(float));
  TETHYS_ASSIGN_OR_RETURN(gradients_, device_->Allocate(bytes, MemoryKind::kDevice));
  gradient_sums_ = gradients_->floats();
  return absl::OkStatus();
}

absl::Status Trainer::BuildPlans() {
  const int64_t bytes = ArenaSize() * static_cast<int64_t>(sizeof(float));
  TETHYS_ASSIGN_OR_RETURN(parameters_, device_->Allocate(bytes, MemoryKind::kDevice));
  const int64_t rows = setup_.plan().batch_per_worker();
  TETHYS_ASSIGN_OR_RETURN(plan_, Plan::Compile(*model_, *device_, *stream_, rows, scaling_,
                                               parameters_->floats(), gradient_sums_));
  TETHYS_ASSIGN_OR_RETURN(evaluation_plan_,
                          Plan::Compile(*model_, *device_, *stream_, EvaluationRows(*model_, rows), scaling_,
                                        parameters_->floats(), nullptr));
  return absl::OkStatus();
}

absl::Status Trainer::PrepareStrategy() {
  const bool updates_here = !setup_.plan().job().strategy().has_parameter_server();
  TETHYS_ASSIGN_OR_RETURN(phases_, StepPhases::Create(*device_, *stream_, *recorder_, updates_here));
  const StepArenas arenas{parameters_->floats(), gradient_sums_, ArenaSize(), phases_->update_events()};
  TETHYS_ASSIGN_OR_RETURN(const StrategyTraits traits, strategy_->Prepare(arenas, model_->ready_order()));
  TETHYS_ASSIGN_OR_RETURN(
      pipeline_, StepPipeline::Create({*plan_, *strategy_, *recorder_, *feed_, *phases_},
                                      {.device = *device_,
                                       .stream = *stream_,
                                       .streamed = traits.streamed,
                                       .ready_ranges = static_cast<int64_t>(model_->ready_order().size()),
                                       .graphs = setup_.plan().job().device().graph()}));
  return absl::OkStatus();
}

// Initial values or a checkpoint's where this worker keeps the parameters; from the servers otherwise.
absl::Status Trainer::TakeParameters() {
  if (setup_.plan().job().strategy().has_parameter_server()) return absl::OkStatus();
  const absl::Span<float> parameters(parameters_->floats(), static_cast<size_t>(ArenaSize()));
  if (!setup_.restore()) {
    return FillDeviceMemory(*device_, *stream_, parameters, [this](absl::Span<float> values) {
      model_->variables().FillInitialValues(setup_.plan().job().seed(), {0, ArenaSize()}, values.data());
      return absl::OkStatus();
    });
  }
  std::vector<absl::Span<float>> parts = strategy_->slots();
  parts.insert(parts.begin(), parameters);
  for (size_t i = 0; i < parts.size(); ++i) {
    TETHYS_RETURN_IF_ERROR(FillDeviceMemory(*device_, *stream_, parts[i], [&](absl::Span<float> values) {
      return session_.ReadCheckpoint(static_cast<int>(i), 0, values);
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Trainer::RunSegment(const proto::Run& run) {
  const proto::JobPlan& plan = setup_.plan();
  const std::shared_ptr<const EpochOrder> order = orders_.Of(run.epoch());
  const std::unique_ptr<BatchSequence> sequence =
      leased_ ? CreateLeasedSequence(run, session_)
              : CreateLockStepSequence(run, plan.global_batch(), task_.index, plan.job().workers());
  if (!leased_) steps_ = run.first_step();
  SegmentPause pause(run, StepsPerEpoch(run.end() - run.begin(), plan.global_batch(), false), session_);

  std::deque<BatchAssignment> announced;
  int64_t done = 0;
  while (true) {
    // Batches are announced as far ahead as the loader prefetches.
    while (feed_->loader().room() > 0) {
      TETHYS_ASSIGN_OR_RETURN(const absl::optional<BatchAssignment> next, sequence->Next(announced.empty()));
      if (!next.has_value()) break;
      feed_->loader().Announce(order, next->positions);
      announced.push_back(*next);
    }
    if (announced.empty()) break;
    if (!leased_) {
      TETHYS_ASSIGN_OR_RETURN(const bool goes_on, pause.GoesOn(done));
      if (!goes_on) break;  // The job is about to end, so nobody asks for what was announced ahead.
    }
    const BatchAssignment batch = announced.front();
    announced.pop_front();

    if (in_rounds_) steps_ = batch.clock;
    const StepInfo step{.step = steps_,
                        .epoch = run.epoch(),
                        .sample_begin = JobPosition(run.epoch(), plan.train_samples(), batch.positions.begin),
                        .sample_count = batch.positions.count(),
                        .global_sample_count = batch.global_count,
                        .schedule_position = SamplesUsed(plan, run.epoch(), batch.step_begin)};
    TETHYS_RETURN_IF_ERROR(session_.status());
    TETHYS_RETURN_IF_ERROR(pipeline_->Run(step));
    ++steps_;
    ++done;
  }
  TETHYS_RETURN_IF_ERROR(pipeline_->Finish());
  return done;
}

absl::StatusOr<EvaluationSums> Trainer::Evaluate(const proto::Evaluate& order) {
  TETHYS_RETURN_IF_ERROR(strategy_->Refresh());
  const std::shared_ptr<const Dataset> dataset = order.split() == proto::TEST    ? datasets_.test
                                                 : order.split() == proto::TRAIN ? datasets_.train
                                                                                 : datasets_.validation;
  if (dataset == nullptr || order.begin() < 0 || order.end() < order.begin() ||
      order.end() > dataset->size()) {
    return absl::InvalidArgumentError(absl::StrCat("asked to evaluate samples [", order.begin(), ", ",
                                                   order.end(), ") that are not there"));
  }
  return tethys::Evaluate(*device_, *evaluation_plan_, dataset, {order.begin(), order.end()});
}

absl::Status Trainer::Save(const proto::Save& order) {
  if (order.first() < 0 || order.count() < 0 || order.first() + order.count() > ArenaSize()) {
    return absl::InvalidArgumentError("asked to save a range outside the arena");
  }
  return session_.WriteCheckpoint(order.id(), [&](TaskSession::WriteRange write) -> absl::Status {
    std::vector<absl::Span<float>> parts = strategy_->slots();
    parts.insert(parts.begin(), {parameters_->floats(), static_cast<size_t>(ArenaSize())});
    for (size_t i = 0; i < parts.size(); ++i) {
      const absl::Span<const float> part = parts[i].subspan(order.first(), order.count());
      TETHYS_RETURN_IF_ERROR(ReadDeviceMemory(*device_, *stream_, part, [&](absl::Span<const float> values) {
        return write(static_cast<int>(i), order.first(), values);
      }));
    }
    return absl::OkStatus();
  });
}

void Trainer::FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) {
  heartbeat.set_step(steps_);
  heartbeat.set_computing(recorder_->computing());
  heartbeat.set_record_stall_ns(recorder_->stalled_ns());
  while (true) {
    proto::FromTask message;
    if (recorder_->Drain(*message.mutable_steps(), kRecordsPerMessage) == 0) return;
    before.push_back(std::move(message));
  }
}

}  // namespace tethys
