#include "deploy/launcher/unfinished_summary.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "deploy/launcher/run_ending.h"
#include "runtime/base/file.h"
#include "runtime/chief/run_summary.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

// Returns the failure for the summary. `result.culprit` is "worker 1", "chief" or empty.
proto::FirstFailure FailureOf(const RunResult& result) {
  const std::vector<std::string> words = absl::StrSplit(result.culprit, ' ');
  proto::FirstFailure failure;
  failure.set_role(words[0]);
  int index = 0;
  if (words.size() > 1 && absl::SimpleAtoi(words[1], &index)) failure.set_index(index);
  failure.set_host(result.host);
  failure.set_message(std::string(result.status.message()));
  failure.set_last_step(result.last_step);
  return failure;
}

void FillEpoch(const proto::EpochResult& epoch, proto::RunSummary& summary) {
  summary.set_epochs(epoch.epoch() + 1);
  if (epoch.has_train_accuracy()) summary.mutable_train()->set_accuracy(epoch.train_accuracy());
  summary.mutable_train()->set_loss(epoch.train_loss());
  if (!epoch.validated()) return;
  if (epoch.has_validation_accuracy()) {
    summary.mutable_validation()->set_accuracy(epoch.validation_accuracy());
  }
  summary.mutable_validation()->set_loss(epoch.validation_loss());
}

}  // namespace

absl::Status RemoveSummary(const std::string& run_dir) {
  return RemoveRecursively(absl::StrCat(run_dir, "/", kSummaryFile));
}

absl::Status CompleteSummary(const proto::JobPlan& plan, const std::string& run_dir, const RunResult& result,
                             const absl::optional<proto::EpochResult>& last_epoch, const Attempts& earlier,
                             bool of_earlier, const std::string& go_on) {
  const bool interrupted = absl::IsCancelled(result.status);
  absl::StatusOr<proto::RunSummary> written = ReadSummary(run_dir);
  if (result.status.ok()) return absl::OkStatus();
  proto::RunSummary summary;
  if (written.ok()) {
    summary = *std::move(written);
  } else {
    summary = SummaryOfPlan(plan);
    summary.set_steps(result.last_step);
    *summary.mutable_attempt() = earlier;
    proto::Attempt& own = *summary.add_attempt();
    own = NewAttempt(plan, earlier.empty() ? 0 : std::prev(earlier.end())->end_step());
    own.set_end_step(std::max(own.first_step(), result.last_step));
    own.set_total_seconds(result.seconds);
    summary.mutable_timing()->set_total_seconds(TotalSeconds(summary.attempt()));
    if (last_epoch.has_value()) FillEpoch(*last_epoch, summary);
    FillCost(plan.job().price_per_hour(), /*epochs=*/0, summary);
  }
  // The chief counts the steps up to its last barrier, and the launcher heard of later ones.
  if (of_earlier && summary.attempt_size() > 0) {
    proto::Attempt& before = *summary.mutable_attempt()->rbegin();
    before.set_ending(summary.ending());
    *summary.add_attempt() = NewAttempt(plan, before.end_step());
  } else if (written.ok() && summary.attempt_size() > 0) {
    proto::Attempt& own = *summary.mutable_attempt()->rbegin();
    own.set_end_step(std::max(own.end_step(), result.last_step));
  }
  summary.set_status(interrupted ? "interrupted" : "failed");
  summary.set_ending(EndingText(result));
  summary.set_go_on(go_on);
  const bool told = !result.culprit.empty() || !summary.has_first_failure();
  if (interrupted) {
    summary.clear_first_failure();
  } else if (told) {
    *summary.mutable_first_failure() = FailureOf(result);
  }
  return WriteSummary(run_dir, summary);
}

}  // namespace tethys
