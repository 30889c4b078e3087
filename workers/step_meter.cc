#include "workers/step_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/process.h"
#include "runtime/base/quantile.h"
#include "runtime/local_strategy.h"
#include "runtime/nn/memory_forecast.h"
#include "workers/machine_state.h"
#include "workers/synthetic_samples.h"

namespace tethys {
namespace {

constexpr int kUnrecorded = 2;
constexpr int kLeastSteps = 5;
// After this time no further step begins, unless the caller requested a longer time.
constexpr Nanoseconds kLongest = 2 * kSecond;
constexpr Nanoseconds kLongestWarmUp = kSecond;
// The number of steps after which the recorder is drained; less than the capacity of the recorder's ring.
constexpr int64_t kDrainEvery = 1024;
// The learning rate of measured steps: so small that the change of a parameter is lost in float32's rounding.
constexpr double kLearningRate = 1e-12;
constexpr Nanoseconds kStepTimeout = 600 * kSecond;
// A measurement (StepVisit) with a share beyond these limits counts as disturbed.
constexpr double kLeastCpuShare = 0.95, kMostSteal = 0.02, kMostGpuOthers = 0.02, kMostGpuPause = 2e-4;
// The duration of each of the two pause measurements, before and after the steps. A process that shares the
// GPU gets the GPU for about two milliseconds at a time.
constexpr Nanoseconds kPauseTime = 5 * kMillisecond;

Shape ShapeOf(const google::protobuf::RepeatedField<int64_t>& axes) { return {axes.begin(), axes.end()}; }

void AddTimes(const proto::StepRecords& records, bool on_gpu, proto::StepVisit& visit) {
  std::vector<double> step, forward, backward, update;
  std::vector<std::vector<double>> ready;
  for (const proto::StepRecord& record : records.record()) {
    // On a GPU, batches are taken while the device computes, so the time to take them adds nothing to the
    // step.
    const Nanoseconds data = on_gpu ? 0 : record.data_ns();
    step.push_back(ToSeconds(record.total_ns() - data));
    forward.push_back(ToSeconds(record.forward_ns()));
    backward.push_back(ToSeconds(record.backward_ns()));
    update.push_back(ToSeconds(record.update_ns()));
    ready.resize(std::max<size_t>(ready.size(), record.bucket_ready_ns_size()));
    for (int i = 0; i < record.bucket_ready_ns_size(); ++i) {
      ready[i].push_back(ToSeconds(std::max<Nanoseconds>(0, record.bucket_ready_ns(i) - data)));
    }
  }
  visit.set_steps(records.record_size());
  visit.set_step(Quantile(step, 0.25));
  visit.set_forward(Quantile(forward, 0.25));
  visit.set_backward(Quantile(backward, 0.25));
  visit.set_update(Quantile(update, 0.25));
  for (std::vector<double>& times : ready) visit.add_ready(Quantile(std::move(times), 0.25));
  for (int i = 1; i < 20; ++i) visit.add_quantile(Quantile(step, i / 20.0));
}

void AddCpuShares(const CpuShares& shares, bool on_gpu, proto::StepVisit& visit) {
  if (!on_gpu) visit.set_cpu_share(shares.thread);
  visit.set_steal(shares.steal);
  visit.set_foreign(shares.foreign);
}

// If `alone`, only this thread computes, on a CPU. So whenever the thread had no CPU, other programs had it.
bool WasDisturbed(const proto::StepVisit& visit, bool alone) {
  return (alone && visit.cpu_share() < kLeastCpuShare) || visit.steal() > kMostSteal ||
         visit.gpu_others() > kMostGpuOthers || visit.gpu_pause() > kMostGpuPause;
}

}  // namespace

StepMeter::StepMeter(const proto::JobPlan& plan, const Clock& clock, GpuCompany* company)
    : plan_(plan),
      micro_batches_(std::max(1, plan.job().micro_batches())),
      clock_(clock),
      company_(company) {}

absl::StatusOr<std::unique_ptr<StepMeter>> StepMeter::Create(const proto::JobPlan& plan,
                                                             std::unique_ptr<Device> device,
                                                             const Clock& clock, GpuCompany* company) {
  std::unique_ptr<StepMeter> meter(new StepMeter(plan, clock, company));
  TETHYS_RETURN_IF_ERROR(meter->CreateReplica(std::move(device)));
  return meter;
}

absl::Status StepMeter::CreateReplica(std::unique_ptr<Device> device) {
  const proto::Job& job = plan_.job();
  on_gpu_ = !device->reads_host_memory();
  TETHYS_ASSIGN_OR_RETURN(const int64_t used, UsedMemory(*device));
  used_before_ = used;
  own_before_ = OwnMemory();
  TETHYS_ASSIGN_OR_RETURN(Model model,
                          Model::Create(job.model(), ShapeOf(plan_.sample_shape()), job.data().classes()));
  const SampleSpec spec = {.shape = model.sample_shape(),
                           .labels = model.loss().labels(),
                           .type = plan_.float_inputs() ? ValueType::kFloat : ValueType::kByte};
  const auto samples = std::make_shared<const SyntheticSamples>(spec, job.data().classes());
  Replica::Options options{
      .micro_batches = micro_batches_,
      .seed = job.seed(),
      .recomputes = job.device().recompute(),
      .scaling = {.type = spec.type},
      .train = std::make_shared<const Dataset>(samples, 0, samples->size()),
      .graphs = job.tuning().graph(),
  };
  TETHYS_ASSIGN_OR_RETURN(replica_,
                          Replica::Create(std::move(model), std::move(device), clock_, std::move(options)));
  TETHYS_ASSIGN_OR_RETURN(stream_, replica_->device().CreateStream());
  return replica_->FillInitialValues(job.seed());
}

// Bytes in use: resident bytes of this process, or the negative of the GPU's free memory.
absl::StatusOr<int64_t> StepMeter::UsedMemory(Device& device) const {
  if (!on_gpu_) return ResidentBytes();
  TETHYS_ASSIGN_OR_RETURN(const absl::optional<int64_t> free_bytes, device.FreeMemory());
  return -free_bytes.value_or(0);
}

absl::Status StepMeter::Prepare(int64_t batch) {
  replica_->Detach();
  const int64_t rows = MicroBatchRows(batch, micro_batches_), last = batch % rows;
  TETHYS_RETURN_IF_ERROR(replica_->model().CheckBatch(last > 0 ? last : rows));
  TETHYS_RETURN_IF_ERROR(replica_->SetRows(batch));
  proto::Optimizer optimizer = plan_.job().optimizer();
  optimizer.set_learning_rate(kLearningRate);
  optimizer.clear_schedule();
  TETHYS_ASSIGN_OR_RETURN(ReplicaUpdate update,
                          replica_->MakeUpdate(optimizer, LearningRateSchedule(optimizer, {})));
  return replica_->Attach(CreateLocalStrategy(std::move(update), clock_, kStepTimeout));
}

absl::Status StepMeter::Step(int64_t batch) {
  replica_->loader().Announce(nullptr, {0, batch});
  const StepInfo step{.step = step_++, .sample_count = batch, .global_sample_count = batch};
  return replica_->Step(step);
}

absl::Status StepMeter::Steps(int64_t batch, int least, Nanoseconds end, Nanoseconds latest) {
  for (int made = 0; made == 0 || clock_.Now() < (made < least ? latest : end); ++made) {
    TETHYS_RETURN_IF_ERROR(Step(batch));
    if (made % kDrainEvery == kDrainEvery - 1) replica_->recorder().Drain(records_, kDrainEvery);
  }
  return replica_->Finish();
}

absl::StatusOr<proto::StepVisit> StepMeter::Visit(int64_t batch, Nanoseconds time) {
  proto::StepVisit visit;
  visit.set_batch(batch);
  ForgetPeak();
  const Nanoseconds begin = clock_.Now();
  TETHYS_RETURN_IF_ERROR(Prepare(batch));
  const Nanoseconds prepared = clock_.Now();
  visit.set_plan_seconds(ToSeconds(prepared - begin));
  TETHYS_RETURN_IF_ERROR(Steps(batch, kUnrecorded, prepared, prepared + kLongestWarmUp));
  DropRecords();

  TETHYS_RETURN_IF_ERROR(AddPause(visit));
  visit.set_began(absl::ToUnixNanos(absl::Now()) * 1e-9);
  const CpuTimes before = ReadCpuTimes(clock_);
  const Nanoseconds latest = before.at + std::max(time, kLongest);
  TETHYS_RETURN_IF_ERROR(Steps(batch, kLeastSteps, before.at + time, latest));
  const CpuTimes after = ReadCpuTimes(clock_);
  visit.set_seconds(ToSeconds(after.at - before.at));
  TETHYS_RETURN_IF_ERROR(AddPause(visit));
  while (replica_->recorder().Drain(records_) > 0) {
  }
  AddTimes(records_, on_gpu_, visit);
  AddCpuShares(SharesBetween(before, after), on_gpu_, visit);
  if (company_ != nullptr) {
    const GpuCompanyReading company = company_->Read();
    if (company.share.has_value()) visit.set_gpu_others(*company.share);
    if (company.processes.has_value()) visit.set_gpu_processes(*company.processes);
  }
  visit.set_disturbed(WasDisturbed(visit, !on_gpu_ && plan_.job().device().threads_per_rank() <= 1));
  TETHYS_RETURN_IF_ERROR(AddMemory(batch, visit));
  DropRecords();
  return visit;
}

absl::Status StepMeter::AddPause(proto::StepVisit& visit) {
  TETHYS_ASSIGN_OR_RETURN(const absl::optional<Nanoseconds> pause,
                          replica_->device().LongestPause(*stream_, kPauseTime));
  if (pause.has_value()) visit.set_gpu_pause(std::max(visit.gpu_pause(), ToSeconds(*pause)));
  return absl::OkStatus();
}

void StepMeter::DropRecords() {
  while (replica_->recorder().Drain(records_) > 0) {
  }
  records_.Clear();
}

absl::Status StepMeter::AddMemory(int64_t batch, proto::StepVisit& visit) {
  const MemoryForecast forecast = ForecastMemory(replica_->model(), MeasuredStepNeeds(plan_, batch));
  visit.set_forecast_bytes(forecast.total());
  TETHYS_ASSIGN_OR_RETURN(const int64_t used, UsedMemory(replica_->device()));
  const int64_t most = on_gpu_ ? used : std::max(used, PeakMemory());
  visit.set_measured_bytes(std::max<int64_t>(0, most - used_before_));
  return absl::OkStatus();
}

absl::Status StepMeter::Try(int64_t batch, int64_t bytes) {
  const MemoryLimit limit(bytes == 0 || on_gpu_ ? 0 : own_before_ + bytes);
  absl::Status tried = Prepare(batch);
  if (tried.ok()) tried = Steps(batch, 1, 0, 0);
  if (tried.ok()) DropRecords();
  if (tried.ok() && on_gpu_ && bytes > 0) tried = CheckMemory(bytes);
  replica_->Detach();
  return tried;
}

absl::Status StepMeter::CheckMemory(int64_t most) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t used, UsedMemory(replica_->device()));
  if (used - used_before_ <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the step needs ", (used - used_before_) >> 20,
                                                   " MiB of the GPU, more than the ", most >> 20,
                                                   " MiB allowed"));
}

absl::StatusOr<proto::MeterFacts> StepMeter::Facts() {
  proto::MeterFacts facts;
  facts.set_host(HostName());
  facts.set_boot_id(BootId());
  facts.set_device(replica_->device().Describe());
  facts.set_on_gpu(on_gpu_);
  const CpuLimit limit = ReadCpuLimit();
  const int cores = ReadCpuTimes(clock_).machine.cores;
  const bool limited = limit.cores > 0 && limit.cores < cores;
  facts.set_cores(limited ? std::max(1, static_cast<int>(std::ceil(limit.cores))) : cores);
  if (limited) {
    facts.set_cpu_quota(limit.cores);
    facts.set_cpu_group(limit.group);
  }
  facts.set_free_bytes(AvailableMemory());
  if (!on_gpu_) return facts;
  TETHYS_ASSIGN_OR_RETURN(const absl::optional<int64_t> free_bytes, replica_->device().FreeMemory());
  facts.set_free_bytes(free_bytes.value_or(0));
  return facts;
}

}  // namespace tethys
