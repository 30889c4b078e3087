// What a job needs of a machine that the launcher cannot see from here: data files and GPUs. The launcher
// asks every machine before anything is started (job_places.h), by `tethys ready` there, which has the same
// view of files and GPUs as the processes that come later.
//
// AskForNeeds blocks, under a deadline, all machines at once; the rest is pure but for looking at files.
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
  int gpus = 0;                               // As many workers compute on GPUs there.
  bool bf16 = false;                          // With gpus, as in CudaDeviceOptions.
  bool tf32 = false;
  std::vector<std::string> cuda_library_path = {};  // As in TaskOptions.

  bool empty() const { return files.empty() && gpus == 0; }
};

// What the job's processes at each place need, by the places' names. Files only on other machines: here they
// have been read. NotFound: a data file is not here.
absl::StatusOr<std::map<std::string, HostNeeds>> NeedsOf(const proto::Job& job, const Places& places,
                                                         const std::vector<std::string>& cuda_library_path);
// Both together; of files, the sizes of `more`.
void AddNeeds(const HostNeeds& more, HostNeeds& needs);

// The needs as words for `tethys ready`, which deploy/command/needs_flags.h parses.
std::vector<std::string> NeedsArguments(const HostNeeds& needs);

// A line for each file that is not on this machine, cannot be read or has another size.
std::vector<std::string> LackingFiles(const HostNeeds& needs);

// What `tethys ready` prints of what is lacking, so that it is found among what a shell's start-up files
// write.
std::string LackText(const std::vector<std::string>& lines);

// OK: the machines have all of it. FailedPrecondition: a line for each thing that one lacks, with its name.
// `scratch` as in RunEverywhere.
absl::Status AskForNeeds(const std::map<std::string, HostNeeds>& needs, const std::vector<Place>& places,
                         const std::string& scratch);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_HOST_NEEDS_H_
