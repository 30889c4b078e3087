#include <cstdio>

#include "absl/strings/str_replace.h"
#include "deploy/command/verbs.h"
#include "deploy/flags/data_secrets.h"
#include "deploy/job_tools/flat_job.h"
#include "deploy/job_tools/job_schema.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/job_run.h"
#include "runtime/job/job_file.h"
#include "runtime/job/text_format_file.h"

namespace tethys {
namespace {

// All checks of `tethys train` that need no machines and start nothing; without `data`, only those that need
// nothing but the job file and its bases.
absl::Status Check(const std::string& file, bool data) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(file, {}));
  if (!data) return absl::OkStatus();
  const absl::StatusOr<proto::JobPlan> plan = PrepareJob(job);
  return WithPlace(plan.ok() ? CheckInitialValues(*plan) : plan.status(), file, {});
}

// The error in one line that begins with a place. An error without a place is put at the beginning of the
// file.
std::string FaultLine(const std::string& file, const absl::Status& fault) {
  const std::string text = absl::StrReplaceAll(fault.message(), {{"\n", " "}});
  const bool placed = ParsePlace(text.substr(0, text.find(": "))).line > 0;
  return placed ? text : absl::StrCat(PlaceText(file, 0, 0), ": ", text);
}

int CheckAll(absl::Span<const std::string> files, bool data) {
  bool good = true;
  for (const std::string& file : files) {
    const absl::Status fault = Check(file, data);
    if (fault.ok()) continue;
    good = false;
    std::printf("%s\n", FaultLine(file, fault).c_str());
  }
  return good ? kExitSuccess : kExitBadRequest;
}

absl::Status CheckWords(const Flags& flags) {
  const std::vector<std::string>& words = flags.arguments();
  const bool checks = words[0] == "check";
  const size_t files = words.size() - 1;
  if (flags.Has("data") && !checks) {
    return absl::InvalidArgumentError("--data is a flag of tethys job check only: leave it out");
  }
  if (checks ? files > 0 : words[0] == "flatten" ? files == 1 : words[0] == "schema" && files == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "write tethys job check FILE ..., tethys job flatten FILE or tethys job schema");
}

int Job(const Flags& flags) {
  if (const absl::Status status = CheckWords(flags); !status.ok())
    return Fail("job", status, kExitBadRequest);
  const std::vector<std::string>& words = flags.arguments();
  if (words[0] == "check") return CheckAll(absl::MakeSpan(words).subspan(1), flags.Has("data"));
  const absl::StatusOr<std::string> text =
      words[0] == "schema" ? JobSchema() : FlatJobTextWithComments(words[1]);
  if (!text.ok()) return Fail("job", text.status(), kExitBadRequest);
  std::fputs(text->c_str(), stdout);
  return kExitSuccess;
}

}  // namespace

Command JobCommand() {
  return {
      {.verb = "job",
       .summary = "Checks job files, writes a job file without its base, or prints the schema of jobs.",
       .description =
           "tethys job check FILE ... checks job files and their bases, and prints a line FILE:LINE:COLUMN: "
           "TEXT for the first mistake of each file; it prints nothing if there is none. Without --data, "
           "the answer depends on the job files alone, so editors and hooks before a commit can check a job "
           "whose data are on other machines.\n\ntethys job flatten FILE prints the job without `base`, in "
           "one file that can be sent elsewhere. Comments at the fields that are left are kept. Paths stay "
           "as they are, because they are relative to the working directory of the command that "
           "trains.\n\ntethys job schema prints the JSON Schema of jobs, with the comments of "
           "proto/job.proto as descriptions, for editors and programs that hold a job as plain "
           "values.\n\nExit status: 0, or 2 if a file is wrong.",
       .argument = "check|flatten|schema [FILE ...]",
       .count = ArgumentCount::kWords,
       .flags = {{.name = "data",
                  .help = "check: also makes the checks of tethys train that need the data and the initial "
                          "checkpoint: that they exist and can be read, and that labels, shapes and model "
                          "fit together."},
                 SecretsFlag()},
       .examples = {"tethys job check examples/*.textproto",
                    "tethys job flatten examples/fashion_mnist_mirrored.textproto > flat.textproto",
                    "tethys job schema > job.schema.json"}},
      Job};
}

}  // namespace tethys
