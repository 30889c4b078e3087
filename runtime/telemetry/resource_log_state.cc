// Saves the state of ResourceLog as a message and restores it.
#include <utility>

#include "runtime/telemetry/resource_log.h"

namespace tethys {
namespace {

constexpr int kMostCores = 1 << 16;  // Of a machine, so that the sum over the machines does not overflow.

}  // namespace

void ResourceLog::Gauge::Save(proto::ResourceLogState::Gauge& state) const {
  state.set_seconds(seconds);
  state.set_weighted(weighted);
  state.set_minimum(minimum);
  state.set_maximum(maximum);
}

void ResourceLog::Gauge::Restore(const proto::ResourceLogState::Gauge& state, StateCheck& check) {
  for (const double value : {state.seconds(), state.weighted(), state.minimum(), state.maximum()}) {
    check.Finite("a gauge", value);
    check.That(value >= 0, "a gauge is negative");
  }
  *this = {state.seconds(), state.weighted(), state.minimum(), state.maximum()};
}

void ResourceLog::Use::Save(proto::ResourceLogState::Use& state) const {
  state.set_cores(cores);
  state.set_boot_id(boot_id);
  state.set_samples(samples);
  for (const Gauge& gauge : gauges) gauge.Save(*state.add_gauge());
  gpu_percent.Save(*state.mutable_gpu_percent());
  gpu_memory_bytes.Save(*state.mutable_gpu_memory_bytes());
  gpu_power_watts.Save(*state.mutable_gpu_power_watts());
}

void ResourceLog::Use::Restore(const proto::ResourceLogState::Use& state, StateCheck& check) {
  check.Within("cores", state.cores(), 0, kMostCores);
  check.Count("samples", state.samples());
  check.That(state.gauge_size() == kQuantities, "a use of resources has ", state.gauge_size(), " gauges");
  if (!check.ok()) return;
  cores = state.cores();
  boot_id = state.boot_id();
  samples = state.samples();
  for (int i = 0; i < kQuantities; ++i) gauges[i].Restore(state.gauge(i), check);
  gpu_percent.Restore(state.gpu_percent(), check);
  gpu_memory_bytes.Restore(state.gpu_memory_bytes(), check);
  gpu_power_watts.Restore(state.gpu_power_watts(), check);
}

void ResourceLog::Latest::Save(proto::ResourceLogState::Machine& state) const {
  state.set_fresh(fresh);
  state.set_cores(cores);
  state.set_taken_ns(taken);
  state.mutable_value()->Assign(values.begin(), values.end());
}

void ResourceLog::Latest::Restore(const proto::ResourceLogState::Machine& state, StateCheck& check) {
  check.Within("cores", state.cores(), 0, kMostCores);
  // The clock offset of a sample may make its time negative.
  check.Within("taken_ns", state.taken_ns(), -2 * StateCheck::kLatest, 2 * StateCheck::kLatest);
  check.That(state.value_size() == kQuantities, "a machine has ", state.value_size(), " values");
  if (!check.ok()) return;
  fresh = state.fresh();
  cores = state.cores();
  taken = state.taken_ns();
  for (int i = 0; i < kQuantities; ++i) {
    check.Finite("a value of a machine", state.value(i));
    values[i] = state.value(i);
  }
}

absl::Status ResourceLog::Save(proto::ResourceLogState& state) const {
  TETHYS_RETURN_IF_ERROR(csv_->Save(*state.mutable_csv()));
  for (const auto& [name, use] : use_) {
    proto::ResourceLogState::Use& saved = *state.add_use();
    saved.set_host(name.first);
    saved.set_process(name.second);
    use.Save(saved);
  }
  for (const auto& [host, latest] : machines_) {
    proto::ResourceLogState::Machine& saved = *state.add_machine();
    saved.set_host(host);
    latest.Save(saved);
  }
  cluster_.Save(*state.mutable_cluster());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ResourceLog>> ResourceLog::Restore(const std::string& run_dir,
                                                                  Nanoseconds begin,
                                                                  const proto::ResourceLogState& state) {
  TETHYS_ASSIGN_OR_RETURN(
      std::unique_ptr<CsvFile> csv,
      CsvFile::Restore(absl::StrCat(run_dir, "/", kResourcesCsvFile), kResourcesCsvHeader, state.csv()));
  std::unique_ptr<ResourceLog> log(new ResourceLog(std::move(csv), begin));
  TETHYS_RETURN_IF_ERROR(log->RestoreSums(state));
  return log;
}

absl::Status ResourceLog::RestoreSums(const proto::ResourceLogState& state) {
  StateCheck check;
  for (const proto::ResourceLogState::Use& saved : state.use()) {
    const auto [use, added] = use_.try_emplace({saved.host(), saved.process()});
    check.That(added, "the process ", saved.process(), " of host ", saved.host(), " comes twice");
    use->second.Restore(saved, check);
  }
  for (const proto::ResourceLogState::Machine& saved : state.machine()) {
    const auto [machine, added] = machines_.try_emplace(saved.host());
    check.That(added, "the host ", saved.host(), " comes twice");
    machine->second.Restore(saved, check);
  }
  cluster_.Restore(state.cluster(), check);
  return check.status();
}

}  // namespace tethys
