// The chief: connects the pure controller to the clock, files and the network. Runs until the job has ended.
//
// Leaves in RUN_DIR: job.textproto, journal, steps.csv, epochs.csv, checkpoints/, summary.json. Progress goes
// to `progress_fd` as it happens.
#ifndef TETHYS_RUNTIME_CHIEF_CHIEF_PROCESS_H_
#define TETHYS_RUNTIME_CHIEF_CHIEF_PROCESS_H_

#include <functional>
#include <string>

#include "absl/types/optional.h"
#include "proto/plan.pb.h"
#include "proto/telemetry.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct ChiefOptions {
  proto::JobPlan plan;
  std::string run_dir;    // Exists; no other process writes there.
  std::string host = {};  // As in TaskOptions.
  std::string listen = "127.0.0.1:0";
  JobToken token;
  absl::optional<TlsIdentity> tls = {};  // The chief's; absent: connections are not encrypted.
  bool resume = false;                   // Resume from the newest good checkpoint in run_dir.
  // Polled at every tick (100 ms): whether the user wants the job to end, with a checkpoint. Empty: never.
  std::function<bool()> interrupted = {};
  int progress_fd = 1;  // One proto::ProgressEvent a line, as JSON; -1: none.
};

// Blocks for the whole job. OK: the job ended well. Cancelled: it was interrupted. Otherwise its first
// failure, which is then also in summary.json and reported as Finished. InvalidArgument and NotFound: nothing
// was started (no checkpoint to resume from, another model).
absl::Status RunChief(const ChiefOptions& options);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_PROCESS_H_
