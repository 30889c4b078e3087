// Guesses the field `data` of a job from what a folder holds. Pure; any thread.
#ifndef TETHYS_DEPLOY_FIRST_JOB_SOURCE_GUESS_H_
#define TETHYS_DEPLOY_FIRST_JOB_SOURCE_GUESS_H_

#include <map>
#include <string>
#include <vector>

#include "deploy/first_job/found_data.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct SourceGuess {
  proto::Data data = {};  // The source with its paths; for folders of pictures, also the classes.
  // The reasons of guesses, by the paths of fields: "data.idx" to a sentence.
  std::map<std::string, std::string> reasons = {};
  std::vector<std::string> left_out = {};  // The names of files and folders that the job does not use.
};

// InvalidArgument: the folder holds data of several formats or of none, or data that can be read in several
// ways or whose labels are missing. The message lists what was found, and says what to do.
absl::StatusOr<SourceGuess> GuessSource(const FoundData& found);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FIRST_JOB_SOURCE_GUESS_H_
