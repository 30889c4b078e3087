#include "runtime/chief/pulse_book.h"

#include <algorithm>

#include "runtime/base/quantile.h"
#include "runtime/chief/saved_values.h"

namespace tethys {
namespace {

constexpr double kFirstBucketSeconds = 100e-6;

// The index of the first bucket whose upper bound is at least `seconds`; the last bucket has no upper bound.
size_t BucketOf(double seconds) {
  size_t bucket = 0;
  for (double bound = kFirstBucketSeconds; seconds > bound && bucket + 1 < PulseBook::kBuckets; bound *= 2)
    ++bucket;
  return bucket;
}

proto::Quartiles QuartilesOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  proto::Quartiles quartiles;
  quartiles.set_lower(Quantile(values, 0.25));
  quartiles.set_median(Quantile(values, 0.5));
  quartiles.set_upper(Quantile(values, 0.75));
  return quartiles;
}

proto::TaskPulse::State StateOf(const TaskState& task, Nanoseconds now) {
  if (task.lost) return proto::TaskPulse::LOST;
  if (task.gone) return proto::TaskPulse::DONE;
  if (task.last_heard != 0 && now - task.last_heard >= Roster::kSilent) return proto::TaskPulse::SILENT;
  return task.ready ? proto::TaskPulse::RUNNING : proto::TaskPulse::STARTING;
}

void SetResources(const proto::ResourceSample& sample, proto::TaskPulse& pulse) {
  const double seconds = ToSeconds(sample.interval_ns());
  pulse.set_cpu_percent(sample.cpu_percent());
  pulse.set_resident_bytes(sample.resident_bytes());
  pulse.set_network_in_bytes_per_second(static_cast<double>(sample.network_in_bytes()) / seconds);
  pulse.set_network_out_bytes_per_second(static_cast<double>(sample.network_out_bytes()) / seconds);
  if (sample.has_gpu_percent()) pulse.set_gpu_percent(sample.gpu_percent());
}

}  // namespace

void PulseBook::Window::Add(double value) {
  if (values.size() < kMostSteps) {
    values.push_back(value);
  } else {
    values[next++ % kMostSteps] = value;
  }
}

void PulseBook::AddSteps(int worker, const proto::StepRecords& records) {
  if (records.record().empty()) return;
  Worker& entry = workers_[worker];
  for (const proto::StepRecord& record : records.record()) {
    const double seconds = ToSeconds(std::max<Nanoseconds>(record.total_ns(), 0));
    entry.step.Add(seconds);
    entry.compute.Add(ToSeconds(record.data_ns() + record.forward_ns() + record.backward_ns()));
    entry.exchange.Add(ToSeconds(record.exchange_ns()));
    const int64_t staleness = std::max<int64_t>(record.staleness(), 0);
    entry.staleness_sum += static_cast<double>(staleness);
    ++staleness_counts_[std::min<size_t>(static_cast<size_t>(staleness), kStalenessCounts - 1)];
    ++entry.steps;
    ++buckets_[BucketOf(seconds)];
    step_seconds_sum_ += seconds;
  }
}

void PulseBook::AddSamples(TaskId task, const std::string& host, const Samples& samples) {
  for (const proto::ResourceSample& sample : samples) {
    if (sample.interval_ns() <= 0) continue;
    (sample.machine() ? machine_sample_[host] : last_sample_[task]) = sample;
  }
}

void PulseBook::AddChiefSamples(const std::string& host, const Samples& samples) {
  chief_host_ = host;
  for (const proto::ResourceSample& sample : samples) {
    if (sample.interval_ns() <= 0) continue;
    (sample.machine() ? machine_sample_[host] : chief_sample_) = sample;
  }
}

void PulseBook::AddMachines(const Roster& roster, proto::Pulse& pulse) const {
  // A sample of a process does not say on which computer it ran, so the boot id comes from the host's sample.
  std::map<std::string, double> own;  // For each boot id, the CPU use of the job's processes.
  const auto count = [&](const std::string& host, const proto::ResourceSample& sample) {
    const auto machine = machine_sample_.find(host);
    if (machine != machine_sample_.end()) own[machine->second.boot_id()] += sample.cpu_percent();
  };
  count(chief_host_, chief_sample_);
  for (const auto& [id, task] : roster.tasks()) {
    const auto found = last_sample_.find(id);
    if (found != last_sample_.end() && !task.lost && !task.gone) count(task.member.host(), found->second);
  }
  for (const auto& [host, sample] : machine_sample_) {
    // Without a boot id, it is not known which hosts are the same computer.
    if (sample.boot_id().empty()) continue;
    proto::MachinePulse& machine = *pulse.add_machine();
    machine.set_host(host);
    machine.set_cpu_percent(sample.cpu_percent());
    machine.set_job_cpu_percent(own[sample.boot_id()]);
    machine.set_cores(sample.cores());
  }
}

proto::Pulse PulseBook::Take(const Roster& roster, Nanoseconds now, double seconds) {
  proto::Pulse pulse;
  pulse.set_seconds(seconds);
  pulse.mutable_step_bucket()->Assign(buckets_.begin(), buckets_.end());
  pulse.set_step_seconds_sum(step_seconds_sum_);
  if (stale_) {
    size_t size = kStalenessCounts;
    while (size > 0 && staleness_counts_[size - 1] == 0) --size;
    pulse.mutable_staleness_count()->Assign(staleness_counts_.begin(), staleness_counts_.begin() + size);
  }
  AddMachines(roster, pulse);
  const int64_t usual = roster.UsualStep();
  for (const proto::Role role : {proto::WORKER, proto::PS}) {
    for (const auto& [id, task] : roster.tasks()) {
      if (id.role != role) continue;
      proto::TaskPulse& line = *pulse.add_task();
      line.set_role(role == proto::WORKER ? "worker" : "ps");
      line.set_index(id.index);
      line.set_host(task.member.host());
      line.set_state(StateOf(task, now));
      line.set_step(task.step);
      if (role == proto::WORKER && !roster.late(id)) line.set_lag(std::max<int64_t>(usual - task.pace(), 0));
      if (task.last_heard != 0) line.set_silent_seconds(ToSeconds(now - task.last_heard));
      if (const auto sample = last_sample_.find(id); sample != last_sample_.end()) {
        SetResources(sample->second, line);
      }
      const auto worker = role == proto::WORKER ? workers_.find(id.index) : workers_.end();
      if (worker == workers_.end()) continue;
      *line.mutable_step_seconds() = QuartilesOf(worker->second.step.values);
      *line.mutable_compute_seconds() = QuartilesOf(worker->second.compute.values);
      *line.mutable_exchange_seconds() = QuartilesOf(worker->second.exchange.values);
      if (stale_)
        line.set_staleness(worker->second.staleness_sum / static_cast<double>(worker->second.steps));
    }
  }
  workers_.clear();
  return pulse;
}

void PulseBook::Save(proto::PulseState& state) const {
  state.mutable_step_bucket()->Assign(buckets_.begin(), buckets_.end());
  state.set_step_seconds_sum(step_seconds_sum_);
  state.mutable_staleness_count()->Assign(staleness_counts_.begin(), staleness_counts_.end());
}

absl::Status PulseBook::Restore(const proto::PulseState& state) {
  StateCheck check;
  check.That(state.step_bucket_size() == static_cast<int>(kBuckets) &&
                 state.staleness_count_size() == static_cast<int>(kStalenessCounts),
             "the saved state has ", state.step_bucket_size(), " buckets of step times and ",
             state.staleness_count_size(), " counts of staleness, which is not what this build saves");
  for (const auto* counts : {&state.step_bucket(), &state.staleness_count()}) {
    for (const int64_t count : *counts) check.Count("a count", count);
  }
  TETHYS_RETURN_IF_ERROR(check.status());
  std::copy(state.step_bucket().begin(), state.step_bucket().end(), buckets_.begin());
  std::copy(state.staleness_count().begin(), state.staleness_count().end(), staleness_counts_.begin());
  step_seconds_sum_ = state.step_seconds_sum();
  return absl::OkStatus();
}

}  // namespace tethys
