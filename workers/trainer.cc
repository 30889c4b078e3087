#include "workers/trainer.h"

#include <algorithm>
#include <utility>

#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/chief_copies.h"
#include "runtime/job/job.h"
#include "runtime/nn/memory_forecast.h"
#include "runtime/shape/job_shape.h"
#include "workers/device_memory.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

// Step records per message. Keeps messages well below gRPC's size limit.
constexpr int64_t kRecordsPerMessage = 1024;

// The number of floats that are saved between two checks of the interruption: 4 MiB.
constexpr int64_t kSavedFloats = 1024 * 1024;

BatchLoader::Options LoaderOptions(const proto::Job& job, const Dataset& train, const InputScaling& scaling) {
  BatchLoader::Options options = {.prefetch_batches = job.tuning().prefetch_batches(),
                                  .threads = std::max(1, job.data().loader_threads())};
  if (job.data().has_augment()) {
    options.augmentation = std::make_shared<const Augmentation>(job, train.spec(), scaling);
  }
  return options;
}

}  // namespace

Trainer::Trainer(const TaskOptions& task, const proto::Setup& setup, TaskSession& session,
                 GroupInterruption& interruption, const Clock& clock)
    : task_(task),
      setup_(setup),
      session_(session),
      interruption_(interruption),
      clock_(clock),
      ready_before_(clock.Now() + FromSeconds(setup.seconds_left())),
      leased_(TraitsOf(setup.plan().job()).leases()),
      on_servers_(TraitsOf(setup.plan().job()).servers()),
      outlives_groups_(FormsNewGroups(setup.plan())) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TaskOptions& task, const proto::Setup& setup,
                                                         TaskSession& session,
                                                         GroupInterruption& interruption, const Clock& clock,
                                                         const MakeDevice& make_device) {
  std::unique_ptr<Trainer> trainer(new Trainer(task, setup, session, interruption, clock));
  TETHYS_RETURN_IF_ERROR(trainer->Build(make_device));
  return trainer;
}

absl::Status Trainer::Build(const MakeDevice& make_device) {
  const proto::JobPlan& plan = setup_.plan();
  const proto::Job& job = plan.job();
  TETHYS_ASSIGN_OR_RETURN(datasets_, OpenData());
  if (datasets_.train->size() != plan.train_samples()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this host's training data has ", datasets_.train->size(),
                     " samples, but the job's training data has ", plan.train_samples(),
                     ": put the same files on every host"));
  }
  TETHYS_RETURN_IF_ERROR(CheckFileSamples(plan, datasets_.file_samples));
  const ValueType type = datasets_.train->spec().type;
  if ((type == ValueType::kFloat) != plan.float_inputs()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this host's training data are ", ValueTypeText(type),
        ", but the job's training data are of the other type: put the same files on every host"));
  }
  orders_.emplace(OrderRulesOf(plan), task_.index);
  TETHYS_ASSIGN_OR_RETURN(scaling_, ResolveScaling(job.data(), datasets_));
  TETHYS_ASSIGN_OR_RETURN(Model model,
                          Model::Create(job.model(), datasets_.train->sample_shape(), job.data().classes()));
  if (model.variables().signature() != plan.model_signature()) {
    return absl::FailedPreconditionError(
        "the model that this worker has built has other variables than the job's plan");
  }
  TETHYS_RETURN_IF_ERROR(model.CheckLabels(datasets_.train->label_format()));
  steps_ = leased_ ? 0 : setup_.state().step();
  return CreateReplica(std::move(model), make_device);
}

// Fetches the data files that are on the chief's machine, and opens the job's data.
absl::StatusOr<Datasets> Trainer::OpenData() {
  proto::Job job = setup_.plan().job();
  const auto read = [this](const std::string& path, int64_t offset, TaskSession::TakeBytes take) {
    return session_.ReadDataFile(path, offset, take);
  };
  TETHYS_ASSIGN_OR_RETURN(*job.mutable_data(), FetchFromChief(job.data(), setup_.chief_file(), read));
  return LoadDatasets(job);
}

absl::Status Trainer::CreateReplica(Model model, const MakeDevice& make_device) {
  const proto::JobPlan& plan = setup_.plan();
  const proto::Job& job = plan.job();
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, make_device(task_, setup_));
  TETHYS_RETURN_IF_ERROR(CheckDeviceMemory(*device, model, MemoryNeedsOf(plan, DeviceOf(plan, task_.index))));
  const int64_t rows = plan.batch_per_worker();
  const int64_t micro_batches = std::max(1, job.micro_batches());
  Replica::Options options{
      .index = task_.index,
      .rows = rows,
      .micro_batches = micro_batches,
      .evaluation_rows = EvaluationRows(model, MicroBatchRows(rows, micro_batches)),
      .seed = job.seed(),
      .groups = std::max(1, job.strategy().local().virtual_replicas()),
      .recomputes = job.device().recompute(),
      .scaling = scaling_,
      .train = datasets_.train,
      .feed = {.loader = LoaderOptions(job, *datasets_.train, scaling_), .slow_down = task_.slow_down},
      .graphs = job.tuning().graph(),
      .records_wait = [this] { session_.BeatSoon(); },
      .may_evaluate = [this] { return interruption_.Check(); }};
  TETHYS_ASSIGN_OR_RETURN(replica_,
                          Replica::Create(std::move(model), std::move(device), clock_, std::move(options)));
  return absl::OkStatus();
}

// Sets the moving statistics to the values that the chief has sent, and the parameters to initial values or
// to the values of a checkpoint. If servers hold the parameters, Attach has already fetched all parameters
// but the frozen ones.
absl::Status Trainer::TakeParameters() {
  const uint64_t seed = setup_.plan().job().seed();
  if (!setup_.restore() && !on_servers_) TETHYS_RETURN_IF_ERROR(replica_->FillInitialValues(seed));
  TETHYS_RETURN_IF_ERROR(replica_->SetStatistics(setup_.statistics()));
  if (on_servers_) {
    for (const Range& range : replica_->model().variables().frozen()) {
      TETHYS_RETURN_IF_ERROR(replica_->FillRange(0, range, [&](absl::Span<float> values) {
        if (setup_.restore()) return session_.ReadCheckpoint(0, range.begin, values);
        replica_->model().variables().FillInitialValues(seed, range, values.data());
        return absl::OkStatus();
      }));
    }
    return absl::OkStatus();
  }
  const size_t parts = !setup_.restore() ? 0 : setup_.restore_slots() ? replica_->Parts().size() : 1;
  for (size_t part = 0; part < parts; ++part) {
    TETHYS_RETURN_IF_ERROR(replica_->FillPart(part, [&](absl::Span<float> values) {
      return session_.ReadCheckpoint(static_cast<int>(part), 0, values);
    }));
  }
  return absl::OkStatus();
}

absl::Status Trainer::RunSegment(WorkerCourse& course, OrderReader& orders) {
  trouble_ = TaskLife::Trouble::kFailure;
  const int64_t epoch = course.run().epoch();
  const std::shared_ptr<const EpochOrder> order = orders_->Of(epoch);
  while (true) {
    TETHYS_RETURN_IF_ERROR(orders.Read());
    TETHYS_RETURN_IF_ERROR(MayGoOn(course.halts()));
    // Batches are announced as far ahead as the loader prefetches.
    while (replica_->loader().room() > 0) {
      const absl::optional<BatchAssignment> ahead = course.Announce();
      if (!ahead.has_value()) break;
      replica_->loader().Announce(order, ahead->positions);
    }
    orders.Answer();
    const absl::optional<BatchAssignment> batch = course.BeginStep();
    if (!batch.has_value()) break;
    TETHYS_RETURN_IF_ERROR(session_.status());
    steps_ = batch->step;
    TETHYS_RETURN_IF_ERROR(InGroup([&] { return replica_->Step(StepOf(*batch, epoch, *order)); }));
    ++steps_;
    course.EndStep();
  }
  return InGroup([this] { return replica_->Finish(); });
}

StepInfo Trainer::StepOf(const BatchAssignment& batch, int64_t epoch, const EpochOrder& order) const {
  return {.step = batch.step,
          .epoch = epoch,
          .sample_begin = order.JobPositionOf(batch.positions.begin),
          .sample_count = batch.positions.count(),
          .global_sample_count = batch.global_count,
          .workers = leased_ ? 0 : place_.world,
          .schedule_position = SamplesUsed(setup_.plan(), epoch, batch.step_begin)};
}

absl::StatusOr<proto::EvaluationDone> Trainer::Evaluate(const proto::Evaluate& order) {
  trouble_ = TaskLife::Trouble::kFailure;
  const std::shared_ptr<const Dataset> dataset = order.split() == proto::TEST    ? datasets_.test
                                                 : order.split() == proto::TRAIN ? datasets_.train
                                                                                 : datasets_.validation;
  if (dataset == nullptr || order.begin() < 0 || order.end() < order.begin() ||
      order.end() > dataset->size()) {
    return absl::InvalidArgumentError(absl::StrCat("the chief ordered this worker to evaluate samples [",
                                                   order.begin(), ", ", order.end(),
                                                   "), which are outside the split"));
  }
  if (order.statistics_size() != replica_->statistics_size()) {
    return absl::InvalidArgumentError(absl::StrCat("the chief sent moving statistics of ",
                                                   order.statistics_size(), " elements, but the model has ",
                                                   replica_->statistics_size()));
  }
  absl::StatusOr<proto::EvaluationDone> done =
      replica_->Evaluate(dataset, {order.begin(), order.end()}, order.statistics());
  if (!done.ok()) return Failed(done.status());
  return done;
}

absl::Status Trainer::Save(const proto::Save& order) {
  trouble_ = TaskLife::Trouble::kFailure;
  if (order.first() < 0 || order.count() < 0 || order.first() + order.count() > replica_->arena_size()) {
    return absl::InvalidArgumentError("the chief ordered this worker to save a range outside the arena");
  }
  const auto write_part = [&](TaskSession::WriteRange write, int part, absl::Span<const float> values) {
    for (int64_t begin = 0; begin < order.count(); begin += kSavedFloats) {
      TETHYS_RETURN_IF_ERROR(interruption_.Check());
      TETHYS_RETURN_IF_ERROR(write(part, order.first() + begin, values.subspan(begin, kSavedFloats)));
    }
    return absl::OkStatus();
  };
  const absl::Status saved =
      session_.WriteCheckpoint(order.id(), [&](TaskSession::WriteRange write) -> absl::Status {
        const Range range{order.first(), order.count()};
        for (size_t part = 0; part < replica_->Parts().size(); ++part) {
          TETHYS_RETURN_IF_ERROR(replica_->ReadPart(part, range, [&](absl::Span<const float> values) {
            return write_part(write, static_cast<int>(part), values);
          }));
        }
        return absl::OkStatus();
      });
  if (saved.ok()) return saved;
  TETHYS_RETURN_IF_ERROR(MayGoOn(/*halted=*/false));
  return saved;
}

void Trainer::FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) {
  heartbeat.set_step(steps_);
  heartbeat.set_computing(replica_->recorder().computing());
  heartbeat.set_record_stall_ns(replica_->recorder().stalled_ns());
  while (true) {
    proto::FromTask message;
    if (replica_->recorder().Drain(*message.mutable_steps(), kRecordsPerMessage) == 0) return;
    before.push_back(std::move(message));
  }
}

}  // namespace tethys
