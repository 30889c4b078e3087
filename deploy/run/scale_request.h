// How `tethys scale` asks the command that makes a run for other numbers of processes: by two files in the
// run directory.
//
//   scalable.txt   exists while the command takes requests; contains the path of its host file, or nothing
//   scale.txt      the request: one change of the job a line, FIELD=VALUE
//
// The command looks for the request several times a second. Once the job trains, it saves a checkpoint, ends
// all processes, takes the request, and starts the job again with the changes (run_attempt.h). Blocks on
// small files; thread-compatible.
#ifndef TETHYS_DEPLOY_RUN_SCALE_REQUEST_H_
#define TETHYS_DEPLOY_RUN_SCALE_REQUEST_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/base/status.h"

namespace tethys {

// The run reports a request that it cannot carry out by a note that begins so (proto::ProgressEvent).
inline constexpr char kNotChanged[] = "not changed: ";

// While a ScaleInbox exists, the run takes requests. If the files cannot be written, `tethys scale` refuses.
class ScaleInbox {
 public:
  // `host_file`: the absolute path of the host file of the run; empty: all processes are on this machine.
  ScaleInbox(std::string run_dir, const std::string& host_file);
  ~ScaleInbox();
  ScaleInbox(const ScaleInbox&) = delete;
  ScaleInbox& operator=(const ScaleInbox&) = delete;

  // True if a request has arrived and has not been taken.
  bool HasRequest() const;
  // Takes the request: the changes of the job; nullopt: there is none.
  absl::optional<std::vector<std::string>> Take();

 private:
  const std::string run_dir_;
};

// The host file of a run that takes requests. FailedPrecondition: the run takes none.
absl::StatusOr<std::string> HostFileOfScalable(const std::string& run_dir);

// Leaves a request. FailedPrecondition: the run has a request that it has not taken yet.
absl::Status LeaveScaleRequest(const std::string& run_dir, const std::vector<std::string>& changes);
// True if the run has a request that it has not taken yet.
bool HasScaleRequest(const std::string& run_dir);
// Removes the files that a killed command may have left.
void RemoveScaleFiles(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_SCALE_REQUEST_H_
