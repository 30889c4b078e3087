#include "runtime/chief/evaluation_coordinator.h"

#include <algorithm>
#include <utility>

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

}  // namespace tethys
