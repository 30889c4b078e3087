// A job file without `base`: the fields of the file and of its bases in one text. Blocks on small files; any
// thread.
#ifndef TETHYS_DEPLOY_JOB_TOOLS_FLAT_JOB_H_
#define TETHYS_DEPLOY_JOB_TOOLS_FLAT_JOB_H_

#include <string>

#include "runtime/base/status.h"

namespace tethys {

// Returns the text of a job file that means the same as the job file at `path`, except that the name of the
// new file is the default of the job's name. A file without a base is returned as it is. Otherwise the text
// begins with the comments at the beginning of `path`, and a field keeps the comments above its line and at
// the end of its line, from the file that wrote the field. Other comments are lost, such as the comments at
// the beginning of a base, which are about the base. FlatJobText (runtime/job/job_file.h) keeps no comments,
// but takes overrides. Has the errors of ReadJobLayers (runtime/job/job_layers.h).
absl::StatusOr<std::string> FlatJobTextWithComments(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_JOB_TOOLS_FLAT_JOB_H_
