// The chief: connects JobController, which is pure, to the clock, files and the network. Runs until the job
// has ended.
//
// Writes to RUN_DIR: journal, steps.csv, epochs.csv, resources.csv, checkpoints/, summary.json. Writes
// progress events to `progress_fd` while the job runs.
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
  std::string run_dir;    // The run directory. It must exist, and no other process may write to it.
  std::string host = {};  // The name that the user gave this machine; empty: the machine's own name.
  std::string listen = "127.0.0.1:0";
  JobToken token;
  absl::optional<TlsIdentity> tls = {};  // The chief's TLS identity; absent: connections are not encrypted.
  bool resume = false;                   // True: resume from run_dir's newest good checkpoint.
  // Polled every 100 ms. Returns true if the user wants the job to save a checkpoint and end. Empty: the user
  // cannot interrupt the job.
  std::function<bool()> interrupted = {};
  int progress_fd = 1;  // Gets one proto::ProgressEvent per line, as JSON. -1: no events are written.
};

// Blocks for the whole job. OK: the job succeeded. Cancelled: it was interrupted. Otherwise returns the job's
// first failure, which is then also in summary.json and in the event `finished`. An error before the chief
// listens (an unusable run directory, a checkpoint of another model, a port that is in use) is only returned.
absl::Status RunChief(const ChiefOptions& options);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_PROCESS_H_
