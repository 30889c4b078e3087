#include "runtime/chief/attempts.h"

#include <algorithm>

#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

Attempts EarlierAttempts(const proto::TrainingState& state,
                         const absl::optional<proto::RunSummary>& last_summary) {
  const bool summary_knows = last_summary.has_value() && last_summary->attempt_size() >= state.attempt_size();
  Attempts attempts = summary_knows ? last_summary->attempt() : state.attempt();
  if (summary_knows && !attempts.empty()) {
    proto::Attempt& last = *attempts.rbegin();
    last.set_ending(last_summary->ending());
    // If the chief was killed, the summary may not know of the last steps before the checkpoint.
    last.set_end_step(std::max(last.end_step(), state.step()));
  }
  for (proto::Attempt& attempt : attempts) {
    const int64_t again =
        std::max<int64_t>(0, attempt.end_step() - std::max(attempt.first_step(), state.step()));
    attempt.set_steps_again(attempt.steps_again() + again);
    attempt.set_first_step(std::min(attempt.first_step(), state.step()));
    attempt.set_end_step(std::min(attempt.end_step(), state.step()));
  }
  return attempts;
}

proto::Attempt NewAttempt(const proto::JobPlan& plan, int64_t first_step) {
  proto::Attempt attempt;
  attempt.set_strategy(StrategyName(plan.job()));
  attempt.set_workers(plan.job().workers());
  attempt.set_servers(plan.placement().servers());
  attempt.set_global_batch_size(plan.global_batch());
  attempt.set_first_step(first_step);
  attempt.set_end_step(first_step);
  if (plan.job().price_per_hour() > 0) attempt.set_price_per_hour(plan.job().price_per_hour());
  return attempt;
}

double TotalSeconds(const Attempts& attempts) {
  double seconds = 0;
  for (const proto::Attempt& attempt : attempts) seconds += attempt.total_seconds();
  return seconds;
}

}  // namespace tethys
