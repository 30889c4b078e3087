// A study file as written, checked without its jobs. Keeps the position of each part in the file, for
// messages. Used by study_file.cc only. Reading blocks on a small file; thread-compatible.
#ifndef TETHYS_DEPLOY_STUDY_WRITTEN_STUDY_H_
#define TETHYS_DEPLOY_STUDY_WRITTEN_STUDY_H_

#include <google/protobuf/text_format.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/study.pb.h"
#include "runtime/base/status.h"
#include "runtime/job/job_fields.h"

namespace tethys {

class WrittenStudy {
 public:
  // Reads, parses and checks a study: factors and levels exist, labels are unique, choices name levels,
  // measures are known. Fills in the defaults of name and repeats. InvalidArgument begins with the position
  // in the file.
  static absl::StatusOr<WrittenStudy> Read(const std::string& path);
  static absl::StatusOr<WrittenStudy> Parse(absl::string_view text, const std::string& path);

  // The position "FILE:LINE:COLUMN" of a part of the study. `steps` is the path to this part, from the
  // outermost field. If the part itself has no position in the file, the position is that of the last step
  // that has one.
  std::string PlaceOf(std::initializer_list<PathStep> steps) const;

  const proto::Study& study() const { return study_; }
  const std::string& path() const { return path_; }

 private:
  explicit WrittenStudy(const std::string& path) : path_(path) {}

  std::string path_;
  proto::Study study_;
  std::unique_ptr<google::protobuf::TextFormat::ParseInfoTree> tree_;
};

// Returns InvalidArgument with the message "PLACE: WHAT".
absl::Status WrongStudy(const std::string& place, const std::string& what);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_WRITTEN_STUDY_H_
