// The summary of a run whose chief could not write one, because it was killed or the user interrupted. The
// launcher writes it from the events that it received. Blocking; thread-compatible.
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

// Forwards all events. Remembers whether training has started, and the result of the last completed epoch.
class EpochWatcher final : public ForwardingListener {
 public:
  using ForwardingListener::ForwardingListener;
  void OnEvent(const proto::ProgressEvent& event) override {
    started_ = started_ || event.has_started();
    if (event.has_epoch()) last_ = event.epoch();
    next().OnEvent(event);
  }
  bool started() const { return started_; }
  const absl::optional<proto::EpochResult>& last() const { return last_; }

 private:
  bool started_ = false;
  absl::optional<proto::EpochResult> last_;
};

// Removes the summary of an earlier attempt, which is invalid once another attempt trains.
absl::Status RemoveSummary(const std::string& run_dir);

// Called after a run; no-op if the run succeeded. Writes a summary if the chief has written none. If the user
// interrupted the run, sets the summary's status to "interrupted". Otherwise sets the summary's first failure
// to the failure that the launcher found, because the launcher knows how processes ended; a failure from the
// chief stays if the launcher found none. `earlier`: the run's earlier attempts.
// `of_earlier`: the summary that exists is that of an earlier attempt, because the last attempt has not
// trained. `go_on`: as in RunSummary.
absl::Status CompleteSummary(const proto::JobPlan& plan, const std::string& run_dir, const RunResult& result,
                             const absl::optional<proto::EpochResult>& last_epoch, const Attempts& earlier,
                             bool of_earlier, const std::string& go_on);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_UNFINISHED_SUMMARY_H_
