// The chief's side of resource samples: samples the chief's own process and machine, and keeps the samples of
// all tasks in RUN_DIR/resources.csv and in the summary. Thread-compatible. Open, Reopen, Restore and
// Finish wait for the disk.
#ifndef TETHYS_RUNTIME_CHIEF_RESOURCE_RECORDER_H_
#define TETHYS_RUNTIME_CHIEF_RESOURCE_RECORDER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "proto/chief_snapshot.pb.h"
#include "proto/member.pb.h"
#include "proto/summary.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/chief_actions.h"
#include "runtime/telemetry/resource_log.h"
#include "runtime/telemetry/resource_sampler.h"

namespace tethys {

class ResourceRecorder {
 public:
  using Samples = ResourceSampler::Samples;
  struct Options {
    std::string run_dir;
    std::string host;          // The name of the chief's machine.
    Nanoseconds interval = 0;  // Between two samples; 0: nothing is sampled, and all calls do nothing.
    Nanoseconds begin = 0;     // When the attempt began.
  };
  ResourceRecorder(Options options, const Clock& clock);

  // The length of resources.csv; 0 if there is none.
  static int64_t FileLength(const std::string& run_dir);
  absl::Status Open();
  // Opens the file for a chief that has taken over, which adds all samples of the attempt again. `bytes`: the
  // length of the file when the attempt began.
  absl::Status Reopen(int64_t bytes);

  // Writes the state into an empty message. Does not block. Errors: those of ResourceLog::Save.
  absl::Status Save(proto::ResourceRecorderState& state) const;
  // Opens the file for a chief that takes over, in a saved state. Errors: those of ResourceLog::Restore.
  absl::Status Restore(const proto::ResourceRecorderState& state);

  // Starts sampling when the first group of tasks is formed. The hosts of its members, and the chief's host,
  // are all machines of the job. Later calls do nothing.
  void Begin(const proto::Group& group);
  // The chief's own samples since the last call.
  Samples Collect();
  absl::Status AddOwn(const Samples& samples);
  // An error concerns the file only (ResourceLog::Add).
  absl::Status Add(const KeepResources& samples);
  // Ends sampling and completes the file.
  absl::Status Finish();
  void FillSummary(proto::RunSummary& summary) const;

 private:
  void StartSampling();

  const Options options_;
  const Clock& clock_;
  std::set<std::string> hosts_;  // The machines of the job; empty until the first group of tasks is formed.
  std::unique_ptr<ResourceLog> log_;          // Null if nothing is sampled.
  std::unique_ptr<ResourceSampler> sampler_;  // Null until the first group of tasks is formed.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_RESOURCE_RECORDER_H_
