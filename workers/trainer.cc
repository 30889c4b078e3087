#include "workers/trainer.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "collectives/suspect.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/chief_copies.h"
#include "runtime/job/job.h"
#include "runtime/nn/memory_forecast.h"
#include "runtime/optim/optimizer.h"
#include "runtime/shape/job_shape.h"
#include "workers/device_factory.h"
#include "workers/device_memory.h"
#include "workers/plan_job.h"
#include "workers/strategy_factory.h"

namespace tethys {
namespace {

// Step records per message. Keeps messages well below gRPC's size limit.
constexpr int64_t kRecordsPerMessage = 1024;

// Floats that are saved between two looks at the interruption: 4 MiB.
constexpr int64_t kSavedFloats = 1024 * 1024;

BatchLoader::Options LoaderOptions(const proto::Job& job, const Dataset& train, const InputScaling& scaling) {
  BatchLoader::Options options = {.prefetch_batches = job.tuning().prefetch_batches(),
                                  .threads = std::max(1, job.data().loader_threads())};
  if (job.data().has_augment()) {
    options.augmentation = std::make_shared<const Augmentation>(job, train.spec(), scaling);
  }
  return options;
}

// True if the job goes on after a loss in another group of workers.
bool OutlivesGroups(const proto::JobPlan& plan) {
  return FormsNewGroups(plan.job()) && !AnyOnGpu(plan);
}

// True if an error of an exchange means that the group of workers is broken. Other errors are failures of
// this worker or of the job.
bool BreaksGroup(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:  // Another worker has ended, and has told so.
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
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
      outlives_groups_(OutlivesGroups(setup.plan())) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TaskOptions& task, const proto::Setup& setup,
                                                         TaskSession& session,
                                                         GroupInterruption& interruption,
                                                         const Clock& clock) {
  std::unique_ptr<Trainer> trainer(new Trainer(task, setup, session, interruption, clock));
  TETHYS_RETURN_IF_ERROR(trainer->Build());
  return trainer;
}

absl::Status Trainer::Build() {
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
  return CreateReplica(std::move(model));
}

absl::Status Trainer::JoinGroup(const proto::Form& form, RingListener& listener, proto::Formed& formed) {
  trouble_ = TaskLife::Trouble::kFailure;
  const StateCopy copy{.step = form.step(),
                       .source = form.source(),
                       .behind = {form.behind().begin(), form.behind().end()},
                       .parts = 1 + static_cast<int64_t>(SlotsOf(setup_.plan().job().optimizer()).size()),
                       .elements = replica_->arena_size(),
                       .statistics = replica_->statistics_size()};
  const WorkerPlace place = PlaceIn(form.group(), task_.index);
  const bool behind = copy.is_behind(place.rank);
  TETHYS_RETURN_IF_ERROR(LeaveGroup(behind && applied_.has_value() && *applied_ + 1 == form.step()));
  group_ = form.group();
  place_ = place;
  TETHYS_RETURN_IF_ERROR(CheckForm(form));
  if (outlives_groups_) {
    const int64_t batch = setup_.plan().global_batch();
    TETHYS_RETURN_IF_ERROR(replica_->FitRows((batch + place_.world - 1) / place_.world));
  }
  StagedState staged;
  Nanoseconds copy_ns = 0;
  const absl::Status connected = Connect(form, listener, copy, staged, copy_ns);
  // A group that has never trained cannot outlive a worker.
  if (!connected.ok()) return Left(connected, applied_.has_value() || behind);
  if (behind) TETHYS_RETURN_IF_ERROR(Commit(form.step(), staged));
  if (!applied_.has_value()) {
    TETHYS_RETURN_IF_ERROR(TakeParameters());
    applied_ = setup_.state().step();
  }
  formed.set_copy_ns(copy.takes_part(place_.rank) ? copy_ns : 0);
  formed.set_exchange(replica_->strategy()->Describe());
  return absl::OkStatus();
}

absl::Status Trainer::CheckForm(const proto::Form& form) const {
  if (place_.rank == WorkerPlace::kNone) {
    return absl::InternalError(
        absl::StrCat("group ", group_.generation(), ", which the chief formed, lacks this worker"));
  }
  const bool behind = absl::c_linear_search(form.behind(), place_.rank);
  if (behind || !applied_.has_value() || *applied_ == form.step()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the chief says that the parameters of this worker are those of ",
                                          form.step(), " steps, but they are those of ", *applied_));
}

absl::Status Trainer::LeaveGroup(bool behind) {
  if (!behind) statistics_ahead_.reset();
  if (behind && replica_->computed_step() == applied_ && replica_->statistics_size() > 0) {
    TETHYS_ASSIGN_OR_RETURN(statistics_ahead_, replica_->StatisticsOfComputedStep());
  }
  watch_.reset();
  // An interrupted strategy does not try to take leave of the workers that are lost.
  if (replica_->strategy() != nullptr) {
    replica_->strategy()->Interrupt(absl::AbortedError("the group of workers was replaced"));
  }
  replica_->Detach();
  return absl::OkStatus();
}

absl::Status Trainer::Connect(const proto::Form& form, RingListener& listener, const StateCopy& copy,
                              StagedState& staged, Nanoseconds& copy_ns) {
  // The strategy of the earlier group, which used the earlier interruption, is gone.
  Interruption& interruption = interruption_.Begin(group_.generation());
  const bool first = !applied_.has_value() && !copy.is_behind(place_.rank);
  const Nanoseconds deadline =
      first ? ready_before_ : clock_.Now() + FromSeconds(setup_.plan().job().timeouts().start());
  GroupChange change{.slots = slots_, .interruption = &interruption};
  change.connected = [&](Communicator& group) {
    const Nanoseconds begin = clock_.Now();
    const absl::Status copied = Copy(group, copy, staged);
    copy_ns = clock_.Now() - begin;
    return copied;
  };
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Strategy> strategy,
                          CreateStrategy(
                              task_, setup_.plan(), form.group(), *replica_, listener, clock_, deadline,
                              [this] { return session_.peers_compute(); }, std::move(change)));
  // Until the strategy is attached, the interruption reaches its communicators alone.
  TETHYS_RETURN_IF_ERROR(replica_->Attach(std::move(strategy), /*warm_up=*/!warm_));
  warm_ = true;
  watch_ = std::make_unique<Interruption::Watch>(
      &interruption,
      [attached = replica_->strategy().get()](const absl::Status& status) { attached->Interrupt(status); });
  return absl::OkStatus();
}

absl::Status Trainer::Copy(Communicator& group, const StateCopy& copy, StagedState& staged) {
  if (copy.behind.empty()) return absl::OkStatus();
  absl::optional<std::vector<float>> statistics;
  if (statistics_ahead_.has_value()) {
    statistics = statistics_ahead_;
  } else if (applied_.has_value()) {
    TETHYS_ASSIGN_OR_RETURN(statistics, replica_->ReadStatistics());
  }
  // No strategy is attached, so the replica itself has no slots.
  std::vector<absl::Span<float>> parts = replica_->Parts();
  for (const absl::Span<float> slot : slots_->spans()) parts.push_back(slot);
  return CopyState(
      group, copy,
      [&](int64_t part, absl::FunctionRef<absl::Status(absl::Span<const float>)> use) -> absl::Status {
        if (part >= static_cast<int64_t>(parts.size())) {
          return absl::InternalError("the chief ordered this worker to send slots that it does not have");
        }
        return ReadDeviceMemory(replica_->device(), replica_->stream(), parts[part], use);
      },
      statistics.has_value() ? &*statistics : nullptr, staged);
}

absl::Status Trainer::Commit(int64_t step, const StagedState& staged) {
  TETHYS_CHECK(staged.parts.size() == replica_->Parts().size());
  for (size_t part = 0; part < staged.parts.size(); ++part) {
    TETHYS_RETURN_IF_ERROR(replica_->FillPart(part, [&](absl::Span<float> values) {
      absl::c_copy(staged.parts[part].span(), values.begin());
      return absl::OkStatus();
    }));
  }
  if (statistics_ahead_.has_value()) {
    TETHYS_RETURN_IF_ERROR(replica_->SetStatistics(*statistics_ahead_));
  } else if (!applied_.has_value() && !staged.mean_statistics.empty()) {
    TETHYS_RETURN_IF_ERROR(replica_->SetStatistics(staged.mean_statistics));
  }
  statistics_ahead_.reset();
  applied_ = steps_ = step;
  return absl::OkStatus();
}

absl::Status Trainer::Left(const absl::Status& failed, bool may_be_broken) {
  trouble_ = TaskLife::Trouble::kFailure;
  if (!outlives_groups_ || !BreaksGroup(failed)) return failed;
  if (!interruption_.Check().ok()) {
    trouble_ = TaskLife::Trouble::kHalted;
  } else if (may_be_broken) {
    trouble_ = TaskLife::Trouble::kBroken;
    broken_ = failed;
  }
  if (applied_.has_value()) steps_ = *applied_;
  return failed;
}

absl::Status Trainer::InGroup(absl::FunctionRef<absl::Status()> work) {
  const absl::Status done = work();
  if (const absl::optional<int64_t> made = replica_->made_step(); outlives_groups_ && made.has_value()) {
    if (applied_ != *made + 1) statistics_ahead_.reset();
    applied_ = *made + 1;
  }
  if (done.ok() || !outlives_groups_) return done;
  // Refresh returns the failure of the exchange; other errors are of the data, the device or the recorder.
  return Left(done, BreaksGroup(replica_->strategy()->Refresh()));
}

void Trainer::FillHalted(proto::Halted& halted) {
  if (applied_.has_value()) halted.set_applied(*applied_);
  if (std::exchange(trouble_, TaskLife::Trouble::kFailure) != TaskLife::Trouble::kBroken) return;
  halted.set_reason(std::string(broken_.message()));
  const std::string suspect = SuspectOf(broken_);
  for (const proto::Member& member : group_.member()) {
    const bool worker = member.role() == proto::WORKER;
    if (worker && absl::StrContains(suspect, MemberName(member))) halted.set_suspect(member.index());
  }
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

absl::Status Trainer::CreateReplica(Model model) {
  const proto::JobPlan& plan = setup_.plan();
  const proto::Job& job = plan.job();
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CreateWorkerDevice(task_, setup_));
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
  const bool on_servers = TraitsOf(setup_.plan().job()).servers();
  const uint64_t seed = setup_.plan().job().seed();
  if (!setup_.restore() && !on_servers) TETHYS_RETURN_IF_ERROR(replica_->FillInitialValues(seed));
  TETHYS_RETURN_IF_ERROR(replica_->SetStatistics(setup_.statistics()));
  if (on_servers) {
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

absl::Status Trainer::MayGoOn(bool halted) {
  const absl::Status halt = interruption_.Check();
  if (!halted && halt.ok()) return absl::OkStatus();
  trouble_ = TaskLife::Trouble::kHalted;
  if (applied_.has_value()) steps_ = *applied_;
  return halt.ok() ? absl::AbortedError("the chief halted the group of workers") : halt;
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
  if (!done.ok()) return Left(done.status(), BreaksGroup(replica_->strategy()->Refresh()));
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
