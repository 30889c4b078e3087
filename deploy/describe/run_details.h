// One run in detail, as `tethys runs show` shows it. Reading blocks on the files of the run; any thread.
#ifndef TETHYS_DEPLOY_DESCRIBE_RUN_DETAILS_H_
#define TETHYS_DEPLOY_DESCRIBE_RUN_DETAILS_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/launcher/launcher_name.h"
#include "deploy/launcher/run_ending.h"
#include "deploy/launcher/run_list.h"
#include "proto/job.pb.h"
#include "proto/summary.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct RunDetails {
  ListedRun listed;  // The name of the listed run is the path of its directory.
  absl::optional<proto::Job> job = {};
  absl::optional<proto::RunSummary> summary = {};  // Absent while the run goes on.
  // The latest progress and pulse (the state of all tasks) of the last attempt; absent if the run has a
  // summary.
  absl::optional<proto::Progress> progress = {};
  absl::optional<proto::Pulse> pulse = {};
  // The newest step in steps.csv, counted from 1, of an ended run in lock step; 0: not known.
  int64_t recorded = 0;
  absl::optional<LauncherName> launcher = {};  // The launcher, while the run goes on.
  absl::optional<int64_t> checkpoint = {};     // The step of the newest checkpoint.
  RunEnding ending = {};                       // Empty unless the run ended without success.
  // A text for each attempt before the last one: how the attempt ended, as far as the run's events say. In
  // order of time.
  std::vector<std::string> earlier = {};
  // A line for each loss of a worker in the run's events, in order of time. If the run has a summary, the
  // losses of the last attempt are left out, because the summary has them.
  std::vector<std::string> losses = {};
};

// NotFound: `path` is no directory, or contains no run; the message may name a run inside `path`. A file that
// cannot be read is no error, but the run then counts as damaged (ListedRun).
absl::StatusOr<RunDetails> ReadRunDetails(const std::string& path);

// The details as text, a line per fact. Pure.
std::string RunDetailsText(const RunDetails& run);

// Checks that `path` is the directory of a run, as ReadRunDetails does.
absl::Status CheckHoldsRun(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_DESCRIBE_RUN_DETAILS_H_
