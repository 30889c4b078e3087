#include "runtime/telemetry/timing_collector.h"

#include <algorithm>
#include <utility>

#include "runtime/base/state_check.h"

namespace tethys {

TimingCollector::TimingCollector(int workers, bool lock_step, std::unique_ptr<CsvFile> steps,
                                 std::unique_ptr<CsvFile> epochs)
    : lock_step_(lock_step),
      steps_csv_(std::move(steps)),
      epochs_csv_(std::move(epochs)),
      iterations_(workers) {}

absl::StatusOr<std::unique_ptr<TimingCollector>> TimingCollector::Open(const std::string& run_dir,
                                                                       const Options& options) {
  TETHYS_ASSIGN_OR_RETURN(auto steps, CsvFile::Open(absl::StrCat(run_dir, "/steps.csv"), kStepsCsvHeader,
                                                    StepsBefore(options.state, options.epoch_length)));
  TETHYS_ASSIGN_OR_RETURN(auto epochs, CsvFile::Open(absl::StrCat(run_dir, "/epochs.csv"), kEpochsCsvHeader,
                                                     EpochsBefore(options.state, options.finished)));
  return std::unique_ptr<TimingCollector>(
      new TimingCollector(options.workers, options.lock_step, std::move(steps), std::move(epochs)));
}

absl::Status TimingCollector::Save(proto::TimingState& state) const {
  TETHYS_RETURN_IF_ERROR(steps_csv_->Save(*state.mutable_steps_csv()));
  TETHYS_RETURN_IF_ERROR(epochs_csv_->Save(*state.mutable_epochs_csv()));
  for (const IterationTimes& times : iterations_) times.Save(*state.add_worker());
  *state.mutable_sums() = sums_;
  noise_.Save(*state.mutable_noise());
  state.set_records(records_);
  for (const auto& [staleness, steps] : staleness_) {
    proto::TimingState::Staleness& saved = *state.add_staleness();
    saved.set_staleness(staleness);
    saved.set_steps(steps);
  }
  state.set_validation_seconds(validation_seconds_);
  state.set_barrier_seconds(barrier_seconds_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TimingCollector>> TimingCollector::Restore(const std::string& run_dir,
                                                                          const Options& options,
                                                                          const proto::TimingState& state) {
  TETHYS_ASSIGN_OR_RETURN(
      auto steps, CsvFile::Restore(absl::StrCat(run_dir, "/steps.csv"), kStepsCsvHeader, state.steps_csv()));
  TETHYS_ASSIGN_OR_RETURN(auto epochs, CsvFile::Restore(absl::StrCat(run_dir, "/epochs.csv"),
                                                        kEpochsCsvHeader, state.epochs_csv()));
  std::unique_ptr<TimingCollector> collector(
      new TimingCollector(options.workers, options.lock_step, std::move(steps), std::move(epochs)));
  TETHYS_RETURN_IF_ERROR(collector->RestoreCounts(state));
  return collector;
}

absl::Status TimingCollector::RestoreCounts(const proto::TimingState& state) {
  StateCheck check;
  check.That(state.worker_size() == static_cast<int>(iterations_.size()), "the state has ",
             state.worker_size(), " workers, but the job has ", iterations_.size());
  TETHYS_RETURN_IF_ERROR(check.status());
  for (int i = 0; i < state.worker_size(); ++i) check.And(iterations_[i].Restore(state.worker(i)));
  check.And(noise_.Restore(state.noise()));
  const proto::StepSums& sums = state.sums();
  for (const int64_t sum :
       {sums.samples(), sums.data_ns(), sums.forward_ns(), sums.backward_ns(), sums.exchange_ns(),
        sums.update_ns(), sums.total_ns(), sums.bytes_out(), sums.bytes_in(), sums.staleness()}) {
    check.Sum("a sum over steps", sum);
  }
  check.Count("records", state.records());
  for (const proto::TimingState::Staleness& saved : state.staleness()) {
    check.Within("staleness", saved.staleness(), 0, kMaxStaleness);
    check.Count("steps", saved.steps());
    check.That(staleness_.emplace(saved.staleness(), saved.steps()).second, "staleness ", saved.staleness(),
               " comes twice");
  }
  check.Finite("validation_seconds", state.validation_seconds());
  check.Finite("barrier_seconds", state.barrier_seconds());
  sums_ = sums;
  records_ = state.records();
  validation_seconds_ = state.validation_seconds();
  barrier_seconds_ = state.barrier_seconds();
  return check.status();
}

absl::Status TimingCollector::Begin() {
  absl::Status status = epochs_csv_->Begin();
  status.Update(steps_csv_->Begin());
  return status;
}

absl::Status TimingCollector::Add(const proto::StepRecords& records, Nanoseconds clock_offset, int workers) {
  for (const proto::StepRecord& record : records.record()) {
    if (record.rank() < 0 || record.rank() >= static_cast<int>(iterations_.size())) {
      return absl::InvalidArgumentError(absl::StrCat("a step record has rank ", record.rank(),
                                                     ", but the job has ", iterations_.size(), " workers"));
    }
  }
  absl::Status status;
  for (const proto::StepRecord& record : records.record()) {
    Count(record, workers == 0 ? static_cast<int>(iterations_.size()) : workers);
    status.Update(steps_csv_->AddLine(StepsCsvLine(record, clock_offset)));
  }
  return status;
}

void TimingCollector::Count(const proto::StepRecord& record, int workers) {
  iterations_[record.rank()].Add(record.epoch(), record.total_ns());
  noise_.Add(record, workers);
  ++records_;
  ++staleness_[std::clamp<int64_t>(record.staleness(), 0, kMaxStaleness)];
  sums_.set_samples(sums_.samples() + record.samples());
  sums_.set_data_ns(sums_.data_ns() + record.data_ns());
  sums_.set_forward_ns(sums_.forward_ns() + record.forward_ns());
  sums_.set_backward_ns(sums_.backward_ns() + record.backward_ns());
  sums_.set_exchange_ns(sums_.exchange_ns() + record.exchange_ns());
  sums_.set_update_ns(sums_.update_ns() + record.update_ns());
  sums_.set_total_ns(sums_.total_ns() + record.total_ns());
  sums_.set_bytes_out(sums_.bytes_out() + record.bytes_out());
  sums_.set_bytes_in(sums_.bytes_in() + record.bytes_in());
  sums_.set_staleness(sums_.staleness() + record.staleness());
}

absl::Status TimingCollector::AddEpoch(const proto::EpochResult& result) {
  validation_seconds_ += result.validation_seconds();
  barrier_seconds_ += result.barrier_seconds();
  absl::Status status = epochs_csv_->AddLine(EpochsCsvLine(result));
  status.Update(steps_csv_->HandOn());
  status.Update(epochs_csv_->HandOn());
  return status;
}

absl::Status TimingCollector::Flush() {
  absl::Status status = steps_csv_->Flush();
  status.Update(epochs_csv_->Flush());
  return status;
}

TimingAnalysis TimingCollector::AnalyseAll() const {
  if (lock_step_) return Analyse(IterationTimes::Slowest(iterations_), validation_seconds_);
  std::vector<TimingAnalysis> workers;
  for (const IterationTimes& times : iterations_) {
    if (times.count() > 0) workers.push_back(Analyse(times, validation_seconds_));
  }
  return Mean(workers);
}

void TimingCollector::FillSummary(double training_seconds, proto::RunSummary& summary) const {
  summary.set_steps_recorded(records_);
  summary.set_samples_recorded(sums_.samples());
  int64_t unrecorded = 0;
  for (const proto::WorkerLoss& loss : summary.worker_loss()) unrecorded += loss.unrecorded_samples();
  for (const proto::GroupChange& change : summary.group_change()) unrecorded += change.unrecorded_samples();
  FillTiming(training_seconds, unrecorded, *summary.mutable_timing());
  noise_.FillSummary(summary);
  if (records_ == 0) return;

  const auto mean = [this](int64_t sum) { return static_cast<double>(sum) / static_cast<double>(records_); };
  const auto mean_us = [&mean](Nanoseconds sum) { return mean(sum) / kMicrosecond; };
  proto::PhaseMeans& phases = *summary.mutable_phases();
  phases.set_data_us(mean_us(sums_.data_ns()));
  phases.set_forward_us(mean_us(sums_.forward_ns()));
  phases.set_backward_us(mean_us(sums_.backward_ns()));
  phases.set_exchange_us(mean_us(sums_.exchange_ns()));
  phases.set_update_us(mean_us(sums_.update_ns()));
  phases.set_total_us(mean_us(sums_.total_ns()));

  proto::Communication& communication = *summary.mutable_communication();
  communication.set_exposed_share(sums_.total_ns() == 0 ? 0
                                                        : mean(sums_.exchange_ns()) / mean(sums_.total_ns()));
  communication.set_bytes_out_per_step(mean(sums_.bytes_out()));
  communication.set_bytes_in_per_step(mean(sums_.bytes_in()));
  communication.set_mean_staleness(mean(sums_.staleness()));
  communication.clear_staleness();
  for (const auto& [staleness, steps] : staleness_) {
    proto::StalenessCount& count = *communication.add_staleness();
    count.set_staleness(staleness);
    count.set_steps(steps);
  }
}

void TimingCollector::FillTiming(double training_seconds, int64_t unrecorded, proto::Timing& timing) const {
  static constexpr const char* kIterations[] = {"2", "2-6", "2-11"};
  const TimingAnalysis analysis = AnalyseAll();
  timing.set_barrier_seconds(barrier_seconds_);
  timing.set_first_iteration_seconds(analysis.first_iteration);
  if (analysis.tmi_avg) timing.set_tmi_avg_seconds(*analysis.tmi_avg);
  if (analysis.beta) timing.set_beta(*analysis.beta);
  timing.clear_tmi_estimate();
  for (size_t i = 0; i < analysis.estimates.size(); ++i) {
    if (!analysis.estimates[i]) continue;
    proto::TmiEstimate& estimate = *timing.add_tmi_estimate();
    estimate.set_iterations(kIterations[i]);
    estimate.set_seconds(analysis.estimates[i]->seconds);
    estimate.set_error(analysis.estimates[i]->error);
  }
  if (training_seconds > 0) {
    timing.set_samples_per_second(static_cast<double>(sums_.samples() + unrecorded) / training_seconds);
  }
}

}  // namespace tethys
