// Checks the data files and GPUs that a job needs on each machine. The launcher cannot check them from its
// own machine, so it runs `tethys ready` on every machine before any process of the job starts
// (job_places.h). `tethys ready` sees the same files and GPUs as the processes that start later.
//
// AskForNeeds asks all machines at once and blocks, with a deadline. The other functions are pure, except
// that they examine files. Thread-compatible.
#ifndef TETHYS_DEPLOY_HOSTS_HOST_NEEDS_H_
#define TETHYS_DEPLOY_HOSTS_HOST_NEEDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "deploy/process/place.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct HostNeeds {
  std::map<std::string, int64_t> files = {};        // Data files: path, and size on this machine in bytes.
  int gpus = 0;                                     // The number of workers on GPUs of the machine.
  bool bf16 = false;                                // The GPUs must compute in bfloat16.
  bool tf32 = false;                                // The GPUs must compute in TF32.
  std::vector<std::string> cuda_library_path = {};  // Folders with NVIDIA's libraries (TaskOptions).

  bool empty() const { return files.empty() && gpus == 0; }
};

// The needs of the job's processes, keyed by Place::host. Files are listed for other machines only, because
// this machine has already read them. NotFound: a data file is missing on this machine.
absl::StatusOr<std::map<std::string, HostNeeds>> NeedsOf(const proto::Job& job, const Places& places,
                                                         const std::vector<std::string>& cuda_library_path);
// Merges `more` into `needs`: the greater number of GPUs counts and, for a file in both, the size in `more`.
void AddNeeds(const HostNeeds& more, HostNeeds& needs);

// Converts the needs to arguments of `tethys ready`; deploy/run/needs_flags.h parses the arguments.
std::vector<std::string> NeedsArguments(const HostNeeds& needs);

// A line for each file that is missing on this machine, cannot be read or has another size. After
// kMostLackingFiles such lines, one line gives the number of the other files.
inline constexpr int kMostLackingFiles = 20;
std::vector<std::string> LackingFiles(const HostNeeds& needs);

// The output of `tethys ready`. Each of `lines` names a file or GPU that the machine lacks. Each line of the
// output is marked, because the start-up files of a shell may write lines, too.
std::string LackText(const std::vector<std::string>& lines);

// OK: no machine lacks a file or GPU. FailedPrecondition: the message has a line for each missing file or
// GPU, with the names of the machines that lack it, and says what to do about missing files. `scratch` as in
// RunEverywhere.
absl::Status AskForNeeds(const std::map<std::string, HostNeeds>& needs, const std::vector<Place>& places,
                         const std::string& scratch);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_NEEDS_H_
