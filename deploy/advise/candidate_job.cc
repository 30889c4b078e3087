#include "deploy/advise/candidate_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "deploy/predict/computers.h"
#include "deploy/predict/host_uses.h"
#include "deploy/predict/step_model.h"
#include "deploy/run/job_places.h"
#include "deploy/text.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// Asynchronous jobs are simulated, which takes a tenth of a second if there are many processes. With more
// slots than this, only some numbers of workers and servers are considered.
constexpr int kFewSlots = 16;
// With more slots than this, asynchronous jobs are considered only for the host file as it is, and not for
// other uses of the hosts (host_uses.h).
constexpr int kFewSimulated = 8;

absl::Status CheckMemory(const ShapedJob& job, const proto::Prediction& prediction,
                         const proto::Calibration& calibration) {
  TETHYS_ASSIGN_OR_RETURN(const JobComputers computers, JobComputers::Create(job.machines, calibration));
  for (const JobComputer& computer : computers.computers()) {
    const int64_t needed =
        computer.workers * prediction.worker_bytes() + computer.servers * prediction.server_bytes();
    const int64_t there = computer.calibration->memory_bytes();
    if (there <= 0 || needed <= there) continue;
    return absl::ResourceExhaustedError(absl::StrCat(computer.name, " has ", BytesText(there),
                                                     " of memory, and the processes of the job on "
                                                     "this machine (",
                                                     computer.processes(), ") would need ",
                                                     BytesText(needed)));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<AnchorShape> AllShapes(int slots) {
  std::vector<AnchorShape> shapes = {{StrategyFamily::kLocal, 1, 0}};
  for (const int workers : NumbersUpTo(slots)) {
    if (workers > 1) shapes.push_back({StrategyFamily::kMirrored, workers, 0});
    for (const int servers : NumbersUpTo(std::min(workers, slots - workers))) {
      shapes.push_back({StrategyFamily::kBulkSynchronous, workers, servers});
    }
  }
  const int fine = slots <= kFewSlots ? 8 : 2;
  for (const int workers : NumbersUpTo(slots, fine)) {
    if (workers == 1) continue;
    for (const int servers : NumbersUpTo(std::min(workers, slots - workers), fine)) {
      shapes.push_back({StrategyFamily::kAsynchronous, workers, servers});
    }
  }
  return shapes;
}

absl::StatusOr<Candidate> PredictCandidate(const ShapedJob& job, const proto::Calibration& calibration) {
  Candidate candidate{.shape = job.shape, .prediction = {}};
  TETHYS_ASSIGN_OR_RETURN(candidate.prediction, Predict(job.plan, job.machines, calibration));
  candidate.machines = MachinesInUse(job.machines);
  candidate.step_seconds = UpdatesOfRun(job.plan) * candidate.prediction.step().value();
  TETHYS_RETURN_IF_ERROR(CheckMemory(job, candidate.prediction, calibration));
  return candidate;
}

namespace {

class CandidateFinder {
 public:
  CandidateFinder(const BaseJob& base, const proto::Calibration& calibration,
                  const std::function<void(proto::Prediction&)>& change)
      : base_(base), calibration_(calibration), change_(change) {}

  absl::StatusOr<CandidateJobs> Find() {
    const std::vector<HostUse> uses = UsesOfHosts(base_.hosts, calibration_);
    classes_ = HostClasses(base_.hosts, calibration_);
    for (size_t i = 0; i < uses.size(); ++i) {
      for (const AnchorShape& shape : AllShapes(base_.slots)) {
        const bool simulated = !TraitsOf(shape.strategy).lock_step;
        if (simulated && i > 0 && base_.slots > kFewSimulated) continue;
        const absl::Status added = Add(uses[i], shape);
        // The first use is the host file as it is. Only errors of the first use are reported, because other
        // uses leave out hosts and so may have too few slots for a shape.
        if (!added.ok() && i == 0) {
          found_.left_out.insert(absl::StrCat(StrategyName(shape.strategy), ": ", added.message()));
        }
      }
    }
    for (const Candidate& candidate : found_.candidates) {
      if (candidate.synchronous()) return std::move(found_);
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the job cannot run on these machines: ", absl::StrJoin(found_.left_out, "; ")));
  }

 private:
  absl::Status Add(const HostUse& use, const AnchorShape& shape) {
    BaseJob base;
    if (!use.text.empty()) {
      TETHYS_ASSIGN_OR_RETURN(const std::vector<HostEntry> hosts,
                              HostsFor(base_.hosts, use, shape.workers, shape.servers));
      base = base_;
      base.hosts = hosts;
    }
    TETHYS_ASSIGN_OR_RETURN(ShapedJob job, ShapeJob(use.text.empty() ? base_ : base, shape));
    if (!IsNew(job)) return absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(Candidate candidate, PredictCandidate(job, calibration_));
    candidate.use = use.text;
    change_(candidate.prediction);
    found_.candidates.push_back(std::move(candidate));
    found_.jobs.push_back(std::move(job));
    return absl::OkStatus();
  }

  // True if no earlier job runs the same processes on equal hosts. Remembers `job`.
  bool IsNew(const ShapedJob& job) {
    if (base_.hosts.empty()) return true;
    const auto in_file = [&](const std::vector<int>& hosts) {
      std::vector<int> found;
      for (const int host : hosts) {
        const auto entry =
            std::find_if(base_.hosts.begin(), base_.hosts.end(),
                         [&](const HostEntry& of_file) { return of_file.host == job.machines.hosts[host]; });
        found.push_back(static_cast<int>(entry - base_.hosts.begin()));
      }
      return found;
    };
    const auto work = WorkOfClasses(classes_, in_file(job.machines.workers), in_file(job.machines.servers));
    return known_.emplace(job.shape.strategy, work).second;
  }

  const BaseJob& base_;
  const proto::Calibration& calibration_;
  const std::function<void(proto::Prediction&)>& change_;
  std::vector<int> classes_;  // The number of each host's class (HostClasses), by line of the host file.
  std::set<std::pair<JobStrategy, std::vector<std::vector<int>>>> known_;
  CandidateJobs found_;
};

}  // namespace

absl::StatusOr<CandidateJobs> FindCandidates(const BaseJob& base, const proto::Calibration& calibration,
                                             const std::function<void(proto::Prediction&)>& change) {
  return CandidateFinder(base, calibration, change).Find();
}

absl::Status CheckHostsForData(const Flags& flags, const BaseJob& base) {
  if (base.hosts.empty() || base.plan.job().data().has_synthetic()) return absl::OkStatus();
  absl::optional<ShapedJob> widest;
  for (const AnchorShape& shape : AllShapes(base.slots)) {
    absl::StatusOr<ShapedJob> job = ShapeJob(base, shape);
    if (job.ok() && (!widest.has_value() || shape.workers > widest->shape.workers)) widest = *std::move(job);
  }
  return widest.has_value() ? PlaceJobs(flags, {widest->plan.job()}).status() : absl::OkStatus();
}

}  // namespace tethys
