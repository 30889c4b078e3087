// Reads study files (proto/study.proto) and lists their combinations of levels, each with its job. Blocks on
// small files; any thread.
//
// Errors are InvalidArgument (NotFound for a missing file) and begin with the position in the file:
// "study.textproto:12:3: ...".
#ifndef TETHYS_DEPLOY_STUDY_STUDY_FILE_H_
#define TETHYS_DEPLOY_STUDY_STUDY_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "proto/study.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// A combination of levels, with its job.
struct StudyCellJob {
  std::vector<int> level;  // The level of each factor.
  std::string name;        // The labels of the levels, joined by ", ".
  std::string directory;   // The beginning of the names of the directories of this combination's runs.
  // LoadStudy sets the fields from here on.
  std::string job_file;
  std::vector<std::string> set;  // FIELD=VALUE, with the folders of the study's places in place of ${NAME}.
  // The host file that one of the combination's levels names; empty: the host file of the study.
  std::string hostfile;
  proto::Job job;  // The resolved job.
};

struct LoadedStudy {
  proto::Study study;
  std::string path;
  std::vector<StudyCellJob> cells;  // In the order in which the last factor changes fastest.
  int excluded = 0;

  // A `file` named in the study, as a path from the working directory; empty if `file` is empty.
  std::string Resolve(const std::string& file) const;
};

// Reads a study and lists its combinations, without their jobs.
absl::StatusOr<LoadedStudy> ReadStudy(const std::string& path);
// Reads a study and its jobs. `places`: folders by name, in place of the study's own folders (StudyPlace).
// `changes`: FIELD=VALUE, applied to all jobs after the study's own changes.
absl::StatusOr<LoadedStudy> LoadStudy(const std::string& path,
                                      const std::map<std::string, std::string>& places,
                                      const std::vector<std::string>& changes = {});

// True if a combination matches all choices.
bool Matches(const proto::Study& study, absl::Span<const int> level,
             const google::protobuf::RepeatedPtrField<proto::StudyChoice>& choices);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_STUDY_FILE_H_
