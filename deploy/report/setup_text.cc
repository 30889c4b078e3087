#include "deploy/report/setup_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/loss_text.h"
#include "deploy/text.h"
#include "runtime/data/data_format.h"
#include "runtime/job/job.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

// The strategy, processes and batch of an attempt: "mirrored, 3 workers, global batch 384".
std::string AttemptText(const proto::Attempt& attempt) {
  return absl::StrCat(
      attempt.strategy(), ", ", PluralText(attempt.workers(), "worker"),
      attempt.servers() == 0 ? "" : absl::StrCat(", ", PluralText(attempt.servers(), "server")),
      ", global batch ", CountText(attempt.global_batch_size()));
}

std::string DescribeAttempts(const proto::RunSummary& summary) {
  if (summary.attempt_size() < 2) return "";
  std::vector<std::string> parts;
  for (const proto::Attempt& attempt : summary.attempt()) {
    std::string part =
        absl::StrFormat("updates %s to %s by %s, %.1f s in all", CountText(attempt.first_step()),
                        CountText(attempt.end_step()), AttemptText(attempt), attempt.total_seconds());
    if (!attempt.ending().empty()) absl::StrAppend(&part, ", until ", attempt.ending());
    if (attempt.steps_again() > 0) {
      absl::StrAppend(&part, " (", PluralText(attempt.steps_again(), "update"), " repeated later)");
    }
    if (const std::string outlived = OutlivedText(attempt); !outlived.empty()) {
      absl::StrAppend(&part, ", outlived ", outlived);
    }
    parts.push_back(std::move(part));
  }
  return absl::StrCat("Attempts: ", absl::StrJoin(parts, "; "), ".");
}

}  // namespace

std::vector<std::string> DescribeSetup(const proto::Job& job, const proto::RunSummary& summary) {
  std::vector<std::string> sentences;
  sentences.push_back(absl::StrCat("Model: ", ModelText(job.model()), "."));
  if (job.data().source_case() != proto::Data::SOURCE_NOT_SET) {
    const int64_t samples = summary.train().samples();
    sentences.push_back(absl::StrCat(
        "Data: ", FormatOf(job.data()).place(job.data()),
        samples > 0 ? absl::StrCat(", ", PluralText(samples, "training sample"), " an epoch") : "", "."));
  }
  if (job.optimizer().has_learning_rate()) {
    sentences.push_back(absl::StrCat("Optimizer: ", OptimizerText(job.optimizer()), ", learning rate ",
                                     job.optimizer().learning_rate(), "."));
  }
  if (job.epochs() > 0) sentences.push_back(absl::StrCat("Length: ", PluralText(job.epochs(), "epoch"), "."));
  if (const std::string attempts = DescribeAttempts(summary); !attempts.empty()) {
    sentences.push_back(attempts);
  }
  return sentences;
}

}  // namespace tethys
