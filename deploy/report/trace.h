// One trace of all workers, for chrome://tracing or ui.perfetto.dev: a row per worker, a slice per step and
// phase, on the chief's clock. The format is the JSON of "Trace Event Format" (Google): complete events,
// times in microseconds.
#ifndef TETHYS_DEPLOY_REPORT_TRACE_H_
#define TETHYS_DEPLOY_REPORT_TRACE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/summary.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Makes the trace from the text of a run's steps.csv; `summary` has the workers' hosts. Pure.
std::string ChromeTrace(absl::string_view steps_csv, const proto::RunSummary& summary);

// Writes RUN_DIR/trace.json. NotFound: no run has ended there, or it recorded no steps. Blocks.
absl::Status WriteTrace(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_TRACE_H_
