#include "deploy/live/live_state.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/live/prediction_check.h"
#include "runtime/base/quantile.h"
#include "runtime/base/status.h"

namespace tethys {
namespace {

// In seconds. If the gap between two pulses is longer, the rate of the newer pulse is not used to estimate
// the bytes moved in the gap.
constexpr double kLongestGap = 60;
// A pulse has 64 counts of staleness; a damaged line may have more.
constexpr int kMostCounts = 64;

// Replaces a task's pulse by a newer pulse, but keeps measurements that are missing in the newer pulse.
void Renew(const proto::TaskPulse& newer, proto::TaskPulse& pulse) {
  proto::TaskPulse renewed = newer;
  if (!newer.has_compute_seconds() && pulse.has_compute_seconds())
    *renewed.mutable_compute_seconds() = pulse.compute_seconds();
  if (!newer.has_exchange_seconds() && pulse.has_exchange_seconds())
    *renewed.mutable_exchange_seconds() = pulse.exchange_seconds();
  if (!newer.has_step_seconds() && pulse.has_step_seconds())
    *renewed.mutable_step_seconds() = pulse.step_seconds();
  if (!newer.has_staleness() && pulse.has_staleness()) renewed.set_staleness(pulse.staleness());
  pulse = renewed;
}

std::string HealthOf(const proto::LiveTask& task, double now) {
  switch (task.pulse().state()) {
    case proto::TaskPulse::RUNNING:
      return task.slow_since() > 0 && now - task.slow_since() >= LiveFold::kSlowSeconds ? "slow" : "ok";
    case proto::TaskPulse::SILENT:
      return "silent";
    case proto::TaskPulse::LOST:
      return "lost";
    case proto::TaskPulse::DONE:
      return "done";
    default:
      return "starting";
  }
}

// The health of a task once the run has ended: "silent" has no meaning then.
std::string HealthAtEnd(const std::string& health) {
  return health == "lost" || health == "silent" ? "lost" : "done";
}

double BytesOf(double rate, double seconds) {
  return std::isfinite(rate) && rate > 0 && seconds > 0 && seconds <= kLongestGap ? rate * seconds : 0;
}

// Subtracts in floating point, because a damaged line may hold any integers.
double Distance(int64_t from, int64_t to) { return static_cast<double>(to) - static_cast<double>(from); }

// Leaves out every second element of kind 0, and every second element of kind 1. Elements of the two kinds
// may alternate.
template <typename List, typename Kind>
void LeaveOutEverySecond(List& list, const Kind& kind) {
  bool stays[2] = {true, true};
  int kept = 0;
  for (int i = 0; i < list.size(); ++i) {
    bool& stay = stays[kind(list[i])];
    if (stay) list.SwapElements(kept++, i);
    stay = !stay;
  }
  list.DeleteSubrange(kept, list.size() - kept);
}

template <typename List>
void CopyFirst(const List& from, int most, List& to) {
  to.Clear();
  for (int i = 0; i < std::min(most, from.size()); ++i) *to.Add() = from[i];
}

// A run that ended because it was interrupted has not failed.
proto::LiveState::Phase PhaseOf(const proto::Finished& finished) {
  if (finished.ok()) return proto::LiveState::SUCCEEDED;
  const bool cancelled = finished.status_code() == static_cast<int>(absl::StatusCode::kCancelled);
  return cancelled || finished.interrupted() ? proto::LiveState::STOPPED : proto::LiveState::FAILED;
}

}  // namespace

void LiveFold::Clear() {
  ++generation_;
  curve_gap_ = 0;
  state_.Clear();
  course_.Clear();
  recent_ = {};
  time_left_ = {};
}

proto::LiveState LiveFold::StateSince(const LiveMark& known) const {
  const auto& curve = course_.curve();
  const auto& epochs = course_.epoch();
  const bool usable =
      known.generation == generation_ && known.points <= curve.size() && known.epochs <= epochs.size();
  const int first_point = usable ? known.points : 0, first_epoch = usable ? known.epochs : 0;
  proto::LiveState state = state_;
  state.set_mark(MarkText(mark()));
  state.set_predicted(expectation_.has_value());
  state.set_curve_begin(first_point);
  state.set_epoch_begin(first_epoch);
  state.mutable_curve()->Add(curve.begin() + first_point, curve.end());
  state.mutable_epoch()->Add(epochs.begin() + first_epoch, epochs.end());
  return state;
}

LiveMark LiveFold::mark() const {
  return {.generation = generation_,
          .points = std::max(0, course_.curve_size() - 1),
          .epochs = std::max(0, course_.epoch_size() - 1)};
}

template <typename List, typename Position, typename Kind>
bool LiveFold::MakeRoom(List& list, int64_t next, double gap, int most, const Position& position,
                        const Kind& kind) {
  const int before = list.size();
  if (before > 1 && Distance(position(list[before - 2]), position(list[before - 1])) < gap) list.RemoveLast();
  while (!list.empty() && position(list[list.size() - 1]) >= next) list.RemoveLast();
  const bool full = list.size() == most;
  if (full) LeaveOutEverySecond(list, kind);
  if (list.size() < before - 1) ++generation_;
  return full;
}

void LiveFold::Add(const proto::ProgressEvent& event) {
  switch (event.event_case()) {
    case proto::ProgressEvent::kListening:  // An attempt begins.
      state_.set_phase(proto::LiveState::STARTING);
      state_.clear_error();
      state_.clear_go_on();
      state_.clear_seconds();
      state_.clear_task();
      state_.clear_step_bucket();
      state_.clear_step_seconds_sum();
      state_.clear_workers_lost();
      state_.clear_servers_lost();
      state_.clear_staleness_count();
      state_.clear_machine();
      state_.clear_left();
      state_.clear_comparison();
      recent_ = {};
      time_left_ = {};
      return;
    case proto::ProgressEvent::kStarted:
      state_.set_phase(proto::LiveState::TRAINING);
      *state_.mutable_started() = event.started();
      ForgetUndone(event.started());
      return;
    case proto::ProgressEvent::kProgress:
      return AddProgress(event.progress());
    case proto::ProgressEvent::kEpoch:
      return AddEpoch(event.epoch());
    case proto::ProgressEvent::kPulse:
      return AddPulse(event.pulse());
    case proto::ProgressEvent::kNote:
    case proto::ProgressEvent::kTaskLost:
      state_.add_note(event.has_task_lost() ? event.task_lost().reason() : event.note());
      if (state_.note_size() > kMostNotes) state_.mutable_note()->DeleteSubrange(0, 1);
      if (event.has_task_lost()) CountLoss(event.task_lost());
      return;
    case proto::ProgressEvent::kFinished:
      state_.set_phase(PhaseOf(event.finished()));
      state_.set_error(event.finished().error());
      state_.set_go_on(event.finished().go_on());
      state_.clear_left();
      for (proto::LiveTask& task : *state_.mutable_task()) task.set_health(HealthAtEnd(task.health()));
      return;
    case proto::ProgressEvent::kTookOver:  // A note of the launcher tells of it.
    case proto::ProgressEvent::EVENT_NOT_SET:
      return;
  }
}

void LiveFold::ForgetUndone(const proto::Started& started) {
  auto& curve = *course_.mutable_curve();
  auto& epochs = *course_.mutable_epoch();
  const int points = curve.size(), ends = epochs.size();
  while (started.has_step() && !curve.empty() && curve[curve.size() - 1].step() > started.step()) {
    curve.RemoveLast();
  }
  while (started.has_epoch() && !epochs.empty() && epochs[epochs.size() - 1].epoch() >= started.epoch()) {
    epochs.RemoveLast();
  }
  if (curve.size() < points || epochs.size() < ends) ++generation_;
}

void LiveFold::AddProgress(const proto::Progress& progress) {
  const proto::Progress before = state_.progress();
  *state_.mutable_progress() = progress;
  time_left_.Add(progress);
  if (progress.epoch_samples_done() <=
      0) {  // This epoch has no measured step yet: keeps the previous values.
    state_.mutable_progress()->set_loss(before.loss());
    if (before.has_accuracy()) state_.mutable_progress()->set_accuracy(before.accuracy());
    state_.mutable_progress()->set_samples_per_second(before.samples_per_second());
    state_.mutable_progress()->set_eta_seconds(before.eta_seconds());
    return;
  }
  auto& curve = *course_.mutable_curve();
  const bool thinned = MakeRoom(
      curve, progress.step(), curve_gap_, kMostPoints,
      [](const proto::CurvePoint& point) { return point.step(); },
      [](const proto::CurvePoint&) { return 0; });
  if (thinned) {
    // The required gap between points is set below the mean gap of these points, because the gaps between
    // progress events vary.
    curve_gap_ = 0.9 * Distance(curve[0].step(), curve[curve.size() - 1].step()) / (curve.size() - 1);
  }
  proto::CurvePoint& point = *curve.Add();
  point.set_step(progress.step());
  point.set_loss(progress.loss());
  if (progress.has_accuracy()) point.set_accuracy(progress.accuracy());
  point.set_samples_per_second(progress.samples_per_second());
}

void LiveFold::AddEpoch(const proto::EpochResult& epoch) {
  auto& epochs = *course_.mutable_epoch();
  MakeRoom(
      epochs, epoch.epoch(), /*gap=*/0, kMostEpochs,
      [](const proto::EpochResult& result) { return result.epoch(); },
      [](const proto::EpochResult& result) { return result.validated() ? 1 : 0; });
  *epochs.Add() = epoch;
}

void LiveFold::CountLoss(const proto::TaskLost& lost) {
  constexpr int32_t kMost = 1 << 30;
  if (lost.role() == "ps") {
    state_.set_servers_lost(std::min(state_.servers_lost(), kMost) + 1);
  } else {
    state_.set_workers_lost(std::min(state_.workers_lost(), kMost) + 1);
  }
}

void LiveFold::AddPulse(const proto::Pulse& pulse) {
  const double gap = pulse.seconds() - state_.seconds();
  state_.set_seconds(pulse.seconds());
  *state_.mutable_step_bucket() = pulse.step_bucket();
  state_.set_step_seconds_sum(pulse.step_seconds_sum());
  CopyFirst(pulse.staleness_count(), kMostCounts, *state_.mutable_staleness_count());
  CopyFirst(pulse.machine(), kMostTasks, *state_.mutable_machine());
  std::map<std::pair<std::string, int>, proto::LiveTask> before;
  for (proto::LiveTask& task : *state_.mutable_task()) {
    before[{task.pulse().role(), task.pulse().index()}].Swap(&task);
  }
  state_.clear_task();
  for (const proto::TaskPulse& newer : pulse.task()) {
    if (state_.task_size() == kMostTasks) break;
    proto::LiveTask& task = *state_.add_task();
    if (const auto found = before.find({newer.role(), newer.index()}); found != before.end()) {
      task = found->second;
    }
    Renew(newer, *task.mutable_pulse());
    task.set_bytes_in(task.bytes_in() + BytesOf(newer.network_in_bytes_per_second(), gap));
    task.set_bytes_out(task.bytes_out() + BytesOf(newer.network_out_bytes_per_second(), gap));
  }
  FindSlowWorkers();
  for (proto::LiveTask& task : *state_.mutable_task()) task.set_health(HealthOf(task, state_.seconds()));
  FindLinkUse();
  Compare(pulse);
}

void LiveFold::FindLinkUse() {
  if (!expectation_.has_value()) return;
  std::map<std::string, double> rates;
  for (const proto::LinkRate& link : expectation_->link()) rates[link.host()] = link.bytes_per_second();
  for (proto::LiveTask& task : *state_.mutable_task()) {
    const auto rate = rates.find(task.pulse().host());
    if (rate == rates.end()) continue;
    task.set_in_share(BytesOf(task.pulse().network_in_bytes_per_second(), 1) / rate->second);
    task.set_out_share(BytesOf(task.pulse().network_out_bytes_per_second(), 1) / rate->second);
  }
}

void LiveFold::Compare(const proto::Pulse& pulse) {
  recent_.Add(pulse);
  time_left_.At(pulse.seconds());
  state_.clear_left();
  if (const auto left = time_left_.Left(); left.has_value()) *state_.mutable_left() = *left;
  state_.clear_comparison();
  const absl::optional<StepFigures> figures = recent_.Figures();
  if (!expectation_.has_value() || !figures.has_value()) return;
  const auto comparison = CompareWithPrediction(*expectation_, *figures, state_);
  if (comparison.has_value()) *state_.mutable_comparison() = *comparison;
}

void LiveFold::FindSlowWorkers() {
  const auto computes = [](const proto::LiveTask& task) {
    return task.pulse().state() == proto::TaskPulse::RUNNING && task.pulse().has_compute_seconds() &&
           std::isfinite(task.pulse().compute_seconds().median());
  };
  std::vector<double> times;
  for (const proto::LiveTask& task : state_.task()) {
    if (computes(task)) times.push_back(task.pulse().compute_seconds().median());
  }
  const double median = Median(times);
  for (proto::LiveTask& task : *state_.mutable_task()) {
    const bool known = computes(task) && median > 0;
    task.set_compute_ratio(known ? task.pulse().compute_seconds().median() / median : 0);
    if (task.compute_ratio() <= kSlowRatio) {
      task.set_slow_since(0);
    } else if (task.slow_since() <= 0) {
      task.set_slow_since(state_.seconds());
    }
  }
}

}  // namespace tethys
