// The summary of a run whose chief could not write one: it was killed, or the user interrupted. The launcher
// writes it from what it saw pass by. Blocking; thread-compatible.
#ifndef TETHYS_DEPLOY_LAUNCHER_UNFINISHED_SUMMARY_H_
#define TETHYS_DEPLOY_LAUNCHER_UNFINISHED_SUMMARY_H_

#include <string>

#include "absl/types/optional.h"
#include "deploy/launcher/launcher.h"
#include "proto/plan.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"
#include "runtime/chief/attempts.h"

namespace tethys {

// Hands everything on, and remembers whether training began and the last epoch that ended.
class EpochWatcher final : public ProgressListener {
 public:
  explicit EpochWatcher(ProgressListener& next) : next_(next) {}
  void OnEvent(const proto::ProgressEvent& event) override {
    started_ = started_ || event.has_started();
    if (event.has_epoch()) last_ = event.epoch();
    next_.OnEvent(event);
  }
  bool Behind() const override { return next_.Behind(); }
  bool started() const { return started_; }
  const absl::optional<proto::EpochResult>& last() const { return last_; }

 private:
  ProgressListener& next_;
  bool started_ = false;
  absl::optional<proto::EpochResult> last_;
};

// What an earlier attempt left no longer holds once another trains.
absl::Status RemoveSummary(const std::string& run_dir);

// After a run. Nothing is done where the chief has written what became of it; but a run that the user
// interrupted is "interrupted", whatever the chief took it for. `earlier`: the attempts before this one.
absl::Status CompleteSummary(const proto::JobPlan& plan, const std::string& run_dir, const RunResult& result,
                             const absl::optional<proto::EpochResult>& last_epoch, const Attempts& earlier);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_UNFINISHED_SUMMARY_H_
