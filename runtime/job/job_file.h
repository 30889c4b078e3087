// Reads job files: protobuf's text format, with overrides from the command line. Called by commands that
// start jobs. The returned jobs are resolved and valid (runtime/job/job_validation.h). Blocks on one small
// file; any thread.
//
// Errors are InvalidArgument (NotFound for a missing file) and start with the place: "mnist.textproto:12:3:
// ...", or the override: "--set=workers=0: ...".
#ifndef TETHYS_RUNTIME_JOB_JOB_FILE_H_
#define TETHYS_RUNTIME_JOB_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// Overrides are FIELD=VALUE, applied in order:
//   batch_size_per_worker=64                            replaces the oneof's other member, global_batch_size
//   strategy=parameter_server                           a member of the oneof inside `strategy`, by name
//   strategy.parameter_server.servers=3                 refused if another strategy is chosen
//   strategy.parameter_server.consistency=asynchronous  a member of the oneof `consistency`
//   model.layer[1].dense.units=300                      one element
//   optimizer.no_weight_decay=bias,scale                a whole list
absl::StatusOr<proto::Job> LoadJob(const std::string& path, absl::Span<const std::string> overrides);

// Like LoadJob, for the job file of a run directory: its fields may have the names of an earlier version.
absl::StatusOr<proto::Job> LoadRunJob(const std::string& path, absl::Span<const std::string> overrides);

// Reads the job file of a run directory, and replaces former names of fields by the names of this version.
// The job is not checked, and fields that the file leaves out do not get their defaults.
absl::StatusOr<proto::Job> ReadRunJob(const std::string& path);

// The text of a job file without `base` that means the same as the file at `path` with `overrides`: the
// fields of the file, of its bases and of the overrides, without defaults and without comments. Has the
// errors of LoadJob.
absl::StatusOr<std::string> FlatJobText(const std::string& path, absl::Span<const std::string> overrides);

// Reads from a job file only the data, the number of batches built ahead, and the loss, which determines the
// meaning of labels. Other fields may be missing and are ignored; the returned job cannot be trained.
absl::StatusOr<proto::Job> LoadData(const std::string& path, absl::Span<const std::string> overrides);

// One of several jobs that are compared.
struct JobVariant {
  proto::Job job;
  std::vector<bool> varied;  // For each variation: true if it was applied to this job.
};
// Like LoadJob, then applies `variations`, FIELD=VALUE each. Variations that choose a oneof member are
// applied before variations that set the fields of that member. A variation of a field in a member that the
// job has not chosen (servers, in a mirrored job), or of a field of `tuning` that the job's strategy does not
// use, leaves the job as it is. Error messages call variations --vary.
absl::StatusOr<JobVariant> LoadJobVariant(const std::string& path, absl::Span<const std::string> overrides,
                                          absl::Span<const std::string> variations);

// Like LoadJob, for the text of a job file. `file_name` appears in messages, and its stem is the default of
// the job's name.
absl::StatusOr<proto::Job> ParseJob(absl::string_view text, const std::string& file_name,
                                    absl::Span<const std::string> overrides);

// Adds the place to an error found after the job was read: if the error message begins with a field of the
// job ("model.layer[1] ...", "data.validation_samples is ..."), prefixes the place where the field got its
// value, as LoadJob does. `path`, `overrides` and `variations` must be those with which the job was read.
// Reads the file again.
absl::Status WithPlace(const absl::Status& status, const std::string& path,
                       absl::Span<const std::string> overrides,
                       absl::Span<const std::string> variations = {});

}  // namespace tethys

#endif  // TETHYS_RUNTIME_JOB_JOB_FILE_H_
