// The chief: connects JobController, which is pure, to the clock, files and the network. Runs until the job
// has ended.
//
// Writes to RUN_DIR: journal, steps.csv, epochs.csv, resources.csv, checkpoints/, summary.json. Writes
// progress events to `progress_fd` while the job runs.
//
// A chief with keeps_log also keeps a log of the controller's inputs (chief_log.h), which now and then begins
// anew with a snapshot of the chief (proto/chief_snapshot.proto). If the chief's process is killed, a process
// with takes_over goes on in its place: it restores the snapshot and repeats the inputs after it, which
// brings it into the same state, and the tasks open their sessions again. Neither the tasks nor the results
// show a difference, except that the next pulse lacks the measurements of the last second; a save in progress
// is made again.
#ifndef TETHYS_RUNTIME_CHIEF_CHIEF_PROCESS_H_
#define TETHYS_RUNTIME_CHIEF_CHIEF_PROCESS_H_

#include <cstdint>
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
  bool keeps_log = false;                // True: another process may take over from this one.
  bool takes_over = false;               // True: go on with the log of a chief whose process has ended.
  int64_t after_event =
      0;  // With takes_over: the number of the last event that the reader of progress_fd has.
  // Polled every 100 ms. Returns true if the user wants the job to save a checkpoint and end. Empty: the user
  // cannot interrupt the job.
  std::function<bool()> interrupted = {};
  int progress_fd = 1;  // Gets one proto::ProgressEvent per line, as JSON. -1: no events are written.
};

// Blocks for the whole job. OK: the job succeeded. Cancelled: it was interrupted. Otherwise returns the job's
// first failure, which is then also in summary.json and in the event `finished`. An error before the chief
// listens (an unusable run directory, a checkpoint of another model, a port that is in use) is only returned.
// So are the errors of a process with takes_over: NotFound if the lost chief kept no log or gave it up, and
// DataLoss if the log contradicts the files of the run.
absl::Status RunChief(const ChiefOptions& options);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHIEF_PROCESS_H_
