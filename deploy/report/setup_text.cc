#include "deploy/report/setup_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/data/data_format.h"
#include "runtime/job/job.h"
#include "runtime/nn/zoo/zoo.h"

namespace tethys {
namespace {

// For example "mirrored, 3 workers, global batch 384".
std::string AttemptText(const proto::Attempt& attempt) {
  return absl::StrCat(attempt.strategy(), ", ", attempt.workers(),
                      attempt.workers() == 1 ? " worker" : " workers",
                      attempt.servers() == 0   ? ""
                      : attempt.servers() == 1 ? ", 1 server"
                                               : absl::StrCat(", ", attempt.servers(), " servers"),
                      ", global batch ", attempt.global_batch_size());
}

std::string DescribeAttempts(const proto::RunSummary& summary) {
  if (summary.attempt_size() < 2) return "";
  std::vector<std::string> parts;
  for (const proto::Attempt& attempt : summary.attempt()) {
    parts.push_back(absl::StrFormat("updates %d to %d by %s, %.1f s in all", attempt.first_step(),
                                    attempt.end_step(), AttemptText(attempt), attempt.total_seconds()));
  }
  return absl::StrCat("Attempts: ", absl::StrJoin(parts, "; "), ".");
}

}  // namespace

std::vector<std::string> DescribeSetup(const proto::Job& job, const proto::RunSummary& summary) {
  std::vector<std::string> sentences;
  sentences.push_back(absl::StrCat("Model: ", ModelText(job.model()), "."));
  if (job.data().source_case() != proto::Data::SOURCE_NOT_SET) {
    const int64_t samples = summary.train().samples();
    sentences.push_back(
        absl::StrCat("Data: ", FormatOf(job.data()).place(job.data()),
                     samples > 0 ? absl::StrCat(", ", samples, " training samples an epoch") : "", "."));
  }
  if (job.optimizer().has_learning_rate()) {
    sentences.push_back(absl::StrCat("Optimizer: ", OptimizerText(job.optimizer()), ", learning rate ",
                                     job.optimizer().learning_rate(), "."));
  }
  if (job.epochs() > 0)
    sentences.push_back(absl::StrCat("Length: ", job.epochs(), job.epochs() == 1 ? " epoch." : " epochs."));
  if (const std::string attempts = DescribeAttempts(summary); !attempts.empty()) {
    sentences.push_back(attempts);
  }
  return sentences;
}

}  // namespace tethys
