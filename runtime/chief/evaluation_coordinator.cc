#include "runtime/chief/evaluation_coordinator.h"

#include <algorithm>
#include <utility>

#include "runtime/chief/saved_values.h"
#include "runtime/data/sharding.h"

namespace tethys {

void EvaluationCoordinator::Begin(int64_t id, proto::Split split, int64_t samples,
                                  const std::vector<float>& statistics, const std::vector<TaskId>& workers,
                                  Nanoseconds now, Actions& actions) {
  id_ = id;
  samples_ = samples;
  parts_.clear();
  sums_ = {};
  begin_ = now;
  for (size_t i = 0; i < workers.size(); ++i) {
    const Slice slice = EvaluationSlice(samples, static_cast<int64_t>(i), workers.size());
    parts_[workers[i]].samples = slice.count();
    proto::ToTask order;
    proto::Evaluate& evaluate = *order.mutable_evaluate();
    evaluate.set_id(id);
    evaluate.set_split(split);
    evaluate.set_begin(slice.begin);
    evaluate.set_end(slice.end);
    evaluate.mutable_statistics()->Assign(statistics.begin(), statistics.end());
    actions.push_back(SendOrder{workers[i], std::move(order)});
  }
}

absl::Status EvaluationCoordinator::OnDone(TaskId worker, const proto::EvaluationDone& done) {
  if (done.id() != id_) return absl::OkStatus();
  const auto part = parts_.find(worker);
  if (part != parts_.end() && part->second.answer != Answer::kAwaited) return absl::OkStatus();
  const int64_t samples = part == parts_.end() ? 0 : part->second.samples;
  if (part == parts_.end() || done.samples() != samples || !IsPossible(done)) {
    return absl::InvalidArgumentError(absl::StrCat("it was asked to evaluate ", samples,
                                                   " samples, but reports ", done.correct(), " correct of ",
                                                   done.labels(), " labels of ", done.samples(), " samples"));
  }
  part->second.answer = Answer::kCounted;
  sums_.Add(done);
  return absl::OkStatus();
}

bool EvaluationCoordinator::IsPossible(const proto::EvaluationDone& done) const {
  const auto within = [&done](int64_t count) { return count >= 0 && count <= done.labels(); };
  if (done.labels() < 0 || done.labels() / std::max<int64_t>(1, labels_) > done.samples()) return false;
  if (!within(done.correct()) || !within(done.correct_top5())) return false;
  if (done.confusion_size() == 0) return true;
  return done.confusion_size() == classes_ * classes_ &&
         std::all_of(done.confusion().begin(), done.confusion().end(), within);
}

void EvaluationCoordinator::OnLost(TaskId worker) {
  const auto part = parts_.find(worker);
  if (part != parts_.end() && part->second.answer == Answer::kAwaited) part->second.answer = Answer::kLost;
}

EvaluationCoordinator::State EvaluationCoordinator::state() const {
  if (id_ == 0) return State::kIdle;
  const bool awaited = std::any_of(parts_.begin(), parts_.end(),
                                   [](const auto& entry) { return entry.second.answer == Answer::kAwaited; });
  if (awaited) return State::kCollecting;
  return sums_.samples == samples_ ? State::kComplete : State::kIncomplete;
}

void EvaluationCoordinator::Save(proto::EvaluationState& state) const {
  static_assert(static_cast<int>(Answer::kLost) == proto::EvaluationState::LOST);
  state.set_id(id_);
  state.set_samples(samples_);
  for (const auto& [worker, part] : parts_) {
    proto::EvaluationState::Part& saved = *state.add_part();
    saved.set_worker(worker.index);
    saved.set_samples(part.samples);
    saved.set_answer(static_cast<proto::EvaluationState::Answer>(part.answer));
  }
  sums_.Save(*state.mutable_sums());
  state.set_begin_ns(begin_);
}

absl::Status EvaluationCoordinator::Restore(const proto::EvaluationState& state, int workers) {
  StateCheck check;
  check.Count("id", state.id());
  check.Count("samples", state.samples());
  check.Time("begin_ns", state.begin_ns());
  QualitySums sums;
  check.And(sums.Restore(state.sums()));
  check.That(state.sums().confusion().empty() || state.sums().confusion_size() == classes_ * classes_,
             "the size of the confusion matrix does not fit ", classes_, " classes");
  std::map<TaskId, Part> parts;
  int64_t asked = 0, counted = 0;
  for (const proto::EvaluationState::Part& saved : state.part()) {
    check.Within("worker", saved.worker(), 0, workers - 1);
    check.Count("samples", saved.samples());
    check.That(proto::EvaluationState::Answer_IsValid(saved.answer()), "there is no answer ", saved.answer());
    const auto answer = static_cast<Answer>(saved.answer());
    if (!check.ok()) break;
    asked += saved.samples();
    if (answer == Answer::kCounted) counted += saved.samples();
    parts[{proto::WORKER, saved.worker()}] = {.samples = saved.samples(), .answer = answer};
  }
  check.That(static_cast<int>(parts.size()) == state.part_size(), "a worker has two parts");
  check.That(parts.empty() || asked == state.samples(), "the parts have ", asked,
             " samples, but the split has ", state.samples());
  check.That(counted == sums.samples, "the sums are over ", sums.samples,
             " samples, but the finished parts have ", counted, " samples");
  TETHYS_RETURN_IF_ERROR(check.status());
  id_ = state.id();
  samples_ = state.samples();
  parts_ = std::move(parts);
  sums_ = std::move(sums);
  begin_ = state.begin_ns();
  return absl::OkStatus();
}

}  // namespace tethys
