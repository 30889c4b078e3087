// A job's needs on a machine that the launcher cannot check from here: data files and GPUs. Before any
// process starts (job_places.h), the launcher runs `tethys ready` on every machine, which has the same view
// of files and GPUs as the processes that start later.
//
// AskForNeeds blocks, under a deadline, all machines at once; the rest is pure except for looking at files.
// Thread-compatible.
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
  std::map<std::string, int64_t> files = {};  // Data files by path, each with its size here in bytes.
  int gpus = 0;                               // The number of workers that compute on GPUs there.
  bool bf16 = false;                          // With gpus, as in CudaDeviceOptions.
  bool tf32 = false;
  std::vector<std::string> cuda_library_path = {};  // See TaskOptions.

  bool empty() const { return files.empty() && gpus == 0; }
};

// The needs of the job's processes, by the names of their places. Files are listed for other machines only,
// since they have been read here. NotFound: a data file is missing on this machine.
absl::StatusOr<std::map<std::string, HostNeeds>> NeedsOf(const proto::Job& job, const Places& places,
                                                         const std::vector<std::string>& cuda_library_path);
// Adds `more` to `needs`; for a file in both, the size in `more` counts.
void AddNeeds(const HostNeeds& more, HostNeeds& needs);

// The needs as arguments of `tethys ready`, which deploy/command/needs_flags.h parses.
std::vector<std::string> NeedsArguments(const HostNeeds& needs);

// A line for each file that is not on this machine, cannot be read or has another size.
std::vector<std::string> LackingFiles(const HostNeeds& needs);

// The output of `tethys ready` for these lacking things, marked because a shell's start-up files may write,
// too.
std::string LackText(const std::vector<std::string>& lines);

// OK: no machine lacks anything. FailedPrecondition: a line for each lacking thing, with the machine's name.
// `scratch` as in RunEverywhere.
absl::Status AskForNeeds(const std::map<std::string, HostNeeds>& needs, const std::vector<Place>& places,
                         const std::string& scratch);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_NEEDS_H_
