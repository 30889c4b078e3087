#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "runtime/job/commented_text.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/job/renamed_fields.h"
#include "runtime/nn/memory_plan.h"
#include "runtime/nn/model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzJob(absl::string_view input) {
  const absl::string_view text = TakeSection(input);
  const std::vector<std::string> overrides = absl::StrSplit(input, '\n', absl::SkipEmpty());
  const std::string present = WithPresentNames(text);
  Require(std::count(present.begin(), present.end(), '\n') >= std::count(text.begin(), text.end(), '\n'),
          "lines keep their numbers");
  const absl::StatusOr<proto::Job> job = ParseJob(text, "job.textproto", overrides);
  if (!job.ok()) {
    const bool placed = absl::StartsWith(job.status().message(), "job.textproto") ||
                        absl::StartsWith(job.status().message(), "--set=");
    return Require(placed, absl::StrCat("'", job.status().message(), "' begins with a place"));
  }
  Require(WithPresentNames(ResolvedText(*job)) == ResolvedText(*job), "present names of fields are kept");
  const absl::StatusOr<proto::Job> again = ParseJob(ResolvedText(*job), "job.textproto", {});
  Require(again.ok(), absl::StrCat("what was resolved is accepted: ", again.status().message()));
  Require(JobHash(*again) == JobHash(*job), "the resolved text is the same job");
  const auto comment = [](const std::string&) {
    return FieldComment{.above = {"# Why."}, .beside = "# How."};
  };
  const absl::StatusOr<proto::Job> commented = ParseJob(CommentedText(*job, comment), "job.textproto", {});
  Require(commented.ok() && JobHash(*commented) == JobHash(*job), "the text with comments is the same job");
  const absl::StatusOr<Model> model = Model::Create(job->model(), {28, 28}, job->data().classes());
  if (model.ok()) {
    Require(PlanStepMemory(model->graph(), 1, /*trains=*/true).elements >= 28 * 28, "a step has memory");
  } else {
    Require(absl::StartsWith(model.status().message(), "model"),
            absl::StrCat("'", model.status().message(), "' names a layer or the model"));
  }
}

}  // namespace tethys::fuzz
