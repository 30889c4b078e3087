// One trace of all processes of a run, for chrome://tracing or ui.perfetto.dev, on the chief's clock:
//   chief    start-up, training with the barrier at its end, validation, checkpoints, the end; lost workers
//   ps       the pushes of each worker, each from the time when the step's first gradients were ready until
//            the end of the exchange phase of the worker's step
//   worker   a slice per step and phase, and the wait at barriers
// and for each process curves of CPU and network, on which a value describes the interval that ends at its
// time.
//
// The trace is made from the ordinary records of a run. The beginnings of evaluations and checkpoints are
// derived from the steps: a barrier ends with the last worker's last step, a validation follows it, and a
// checkpoint lasts until training goes on. Workers' steps are of all attempts; everything else is of the last
// attempt.
#ifndef TETHYS_DEPLOY_REPORT_TRACE_H_
#define TETHYS_DEPLOY_REPORT_TRACE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/summary.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The texts of a run's files; all but the steps may be empty.
struct TracedFiles {
  absl::string_view steps_csv = {};
  absl::string_view epochs_csv = {};
  absl::string_view resources_csv = {};
  absl::string_view journal = {};
};

// Returns the trace as JSON. Pure.
std::string ChromeTrace(const TracedFiles& files, const proto::RunSummary& summary);

// Writes RUN_DIR/trace.json. NotFound: no run has ended in `run_dir`, or the run recorded no steps. Blocks.
absl::Status WriteTrace(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_TRACE_H_
