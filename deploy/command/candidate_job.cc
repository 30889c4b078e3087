#include "deploy/command/candidate_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "deploy/predict/computers.h"
#include "deploy/predict/step_model.h"
#include "deploy/text.h"

namespace tethys {
namespace {

// Asynchronous jobs are simulated, which takes a tenth of a second for many processes, so with more slots
// than this fewer numbers of workers and servers are considered.
constexpr int kFewSlots = 16;

absl::Status CheckMemory(const ShapedJob& job, const proto::Prediction& prediction,
                         const proto::Calibration& calibration) {
  TETHYS_ASSIGN_OR_RETURN(const JobComputers computers, JobComputers::Create(job.machines, calibration));
  for (const JobComputer& computer : computers.computers()) {
    const int64_t needed =
        computer.workers * prediction.worker_bytes() + computer.servers * prediction.server_bytes();
    const int64_t there = computer.calibration->memory_bytes();
    if (there <= 0 || needed <= there) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat(computer.name, " has ", BytesText(there), " of memory, and ", computer.processes(),
                     " of the job's processes on it would need ", BytesText(needed)));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<JobShape> AllShapes(int slots) {
  std::vector<JobShape> shapes = {{"local", 1, 0}};
  for (const int workers : NumbersUpTo(slots)) {
    if (workers > 1) shapes.push_back({"mirrored", workers, 0});
    for (const int servers : NumbersUpTo(std::min(workers, slots - workers))) {
      shapes.push_back({"ps_sync", workers, servers});
    }
  }
  const int fine = slots <= kFewSlots ? 8 : 2;
  for (const int workers : NumbersUpTo(slots, fine)) {
    if (workers == 1) continue;
    for (const int servers : NumbersUpTo(std::min(workers, slots - workers), fine)) {
      shapes.push_back({"ps_async", workers, servers});
    }
  }
  return shapes;
}

absl::StatusOr<Candidate> PredictCandidate(const ShapedJob& job, const proto::Calibration& calibration) {
  Candidate candidate{.strategy = job.shape.strategy,
                      .workers = job.shape.workers,
                      .servers = job.shape.servers,
                      .prediction = {}};
  TETHYS_ASSIGN_OR_RETURN(candidate.prediction, Predict(job.plan, job.machines, calibration));
  TETHYS_RETURN_IF_ERROR(CheckMemory(job, candidate.prediction, calibration));
  return candidate;
}

}  // namespace tethys
