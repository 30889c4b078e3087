#include "runtime/chief/statistics_book.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/chief/saved_values.h"

namespace tethys {
namespace {

using Values = google::protobuf::RepeatedField<float>;

bool AllFinite(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

std::vector<float> VectorOf(const Values& values) { return {values.begin(), values.end()}; }

}  // namespace

StatisticsBook::StatisticsBook(int workers, MovingStatistics start)
    : current_(std::move(start)), workers_(workers) {
  if (current_.workers.size() != workers_.size()) return;
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i].own = current_.workers[i];
}

const std::vector<float>& StatisticsBook::StartOf(int worker) const {
  const std::vector<float>& own = workers_[worker].own;
  return own.empty() ? current_.mean : own;
}

absl::Status StatisticsBook::OnRunDone(int worker, const proto::RunDone& done) {
  const auto& values = done.statistics();
  if (values.size() != static_cast<int>(current_.mean.size())) {
    return absl::InvalidArgumentError(absl::StrCat("this worker reports moving statistics of ", values.size(),
                                                   " elements, but the model has ", current_.mean.size()));
  }
  if (!AllFinite(values)) {
    return absl::InvalidArgumentError(
        "the moving statistics of this worker contain a value that is not finite: lower "
        "optimizer.learning_rate");
  }
  Worker& reporting = workers_[worker];
  reporting.own.assign(values.begin(), values.end());
  const int64_t steps = std::clamp<int64_t>(done.steps(), 0, kMostSteps);
  reporting.steps = std::min(kMostSteps, reporting.steps + steps);
  return absl::OkStatus();
}

void StatisticsBook::OnLost(int worker) { workers_[worker] = {.own = {}, .steps = 0, .replaced = true}; }

void StatisticsBook::Average(bool equally) {
  if (!Tracks()) return;
  std::vector<const Worker*> counted;
  bool all_known = true;
  for (const Worker& worker : workers_) {
    all_known = all_known && !worker.own.empty();
    if (!worker.own.empty() && (equally || worker.steps > 0)) counted.push_back(&worker);
  }
  if (equally &&
      std::any_of(counted.begin(), counted.end(), [](const Worker* one) { return !one->replaced; })) {
    counted.erase(
        std::remove_if(counted.begin(), counted.end(), [](const Worker* one) { return one->replaced; }),
        counted.end());
  }
  for (Worker& worker : workers_) worker.replaced = worker.replaced && worker.own.empty();
  current_.workers.clear();
  if (all_known) {
    for (const Worker& worker : workers_) current_.workers.push_back(worker.own);
  }
  if (counted.empty()) return;
  // If all workers have made the same number of steps, each weight is 1 instead of that number, so that
  // rounding does not depend on the number of steps.
  const bool equal = equally || std::all_of(counted.begin(), counted.end(), [&](const Worker* worker) {
                       return worker->steps == counted.front()->steps;
                     });
  double weights = 0;
  std::vector<double> sums(current_.mean.size());
  for (const Worker* worker : counted) {
    const double weight = equal ? 1 : static_cast<double>(worker->steps);
    weights += weight;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * worker->own[i];
  }
  for (size_t i = 0; i < sums.size(); ++i) current_.mean[i] = static_cast<float>(sums[i] / weights);
}

void StatisticsBook::Save(proto::StatisticsState& state) const {
  state.mutable_mean()->Assign(current_.mean.begin(), current_.mean.end());
  for (const std::vector<float>& own : current_.workers) {
    state.add_averaged()->mutable_value()->Assign(own.begin(), own.end());
  }
  for (const Worker& worker : workers_) {
    proto::StatisticsState::Reported& saved = *state.add_worker();
    saved.mutable_own()->mutable_value()->Assign(worker.own.begin(), worker.own.end());
    saved.set_steps(worker.steps);
    saved.set_replaced(worker.replaced);
  }
}

absl::Status StatisticsBook::Restore(const proto::StatisticsState& state) {
  StateCheck check;
  const int size = state.mean_size();
  const auto workers = static_cast<int>(workers_.size());
  const auto check_arena = [&](const Values& values, bool may_lack) {
    check.That(values.size() == size || (may_lack && values.empty()),
               "the moving statistics of a worker have ", values.size(),
               " values, but their mean over the workers has ", size);
    check.That(AllFinite(values), "a value of the moving statistics is not finite");
  };
  check_arena(state.mean(), false);
  check.That(state.worker_size() == workers, "the saved moving statistics are of ", state.worker_size(),
             " workers, but the job has ", workers);
  check.That(state.averaged().empty() || state.averaged_size() == workers,
             "the mean of the moving statistics is over ", state.averaged_size(),
             " workers, but the job has ", workers);
  for (const proto::StatisticsState::Arena& own : state.averaged()) check_arena(own.value(), false);
  for (const proto::StatisticsState::Reported& worker : state.worker()) {
    check_arena(worker.own().value(), true);
    check.Within("steps", worker.steps(), 0, kMostSteps);
  }
  TETHYS_RETURN_IF_ERROR(check.status());
  current_ = {.mean = VectorOf(state.mean())};
  for (const proto::StatisticsState::Arena& own : state.averaged()) {
    current_.workers.push_back(VectorOf(own.value()));
  }
  for (int i = 0; i < workers; ++i) {
    workers_[i] = {.own = VectorOf(state.worker(i).own().value()),
                   .steps = state.worker(i).steps(),
                   .replaced = state.worker(i).replaced()};
  }
  return absl::OkStatus();
}

}  // namespace tethys
