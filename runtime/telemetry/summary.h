// RUN_DIR/summary.json: proto::RunSummary in protobuf's JSON mapping, with the field names of the .proto
// file. The chief writes the file; if the chief cannot, the launcher does. `tethys compare` reads it.
// Blocking, thread-safe.
#ifndef TETHYS_RUNTIME_TELEMETRY_SUMMARY_H_
#define TETHYS_RUNTIME_TELEMETRY_SUMMARY_H_

#include <string>

#include "proto/summary.pb.h"
#include "runtime/base/status.h"

namespace tethys {

extern const char kSummaryFile[];  // The file's name in the run directory.

// Replaces the file atomically: a reader finds the old or the new contents, never a mixture.
absl::Status WriteSummary(const std::string& run_dir, const proto::RunSummary& summary);

// NotFound: no run has ended in `run_dir`. DataLoss: the file is not a summary. Unknown fields are ignored.
absl::StatusOr<proto::RunSummary> ReadSummary(const std::string& run_dir);

// Fills in the cost of the run and, if at least one epoch was trained, of an epoch, from the times in the
// summary. `epochs` is the number of trained epochs, including the trained part of the last epoch.
// `price_per_hour` is the price of all machines during the last attempt, and during attempts that had no
// price. Does nothing if it is 0.
void FillCost(double price_per_hour, double epochs, proto::RunSummary& summary);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_SUMMARY_H_
