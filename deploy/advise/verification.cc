#include "deploy/advise/verification.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/advise/advice_text.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/report/others_cpu.h"
#include "deploy/run/job_places.h"
#include "deploy/text.h"
#include "runtime/base/quantile.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

constexpr double kBriefSeconds = 1.5;  // The length of one brief run, without its start.
constexpr int kRounds = 3;
// A candidate that is slower than the best by more than this share does not run again.
constexpr double kDropped = 0.1;
constexpr int kMostAdded = 3;  // The most candidates that a round may add.

class Verifying {
 public:
  Verifying(const Flags& flags, const VerificationRequest& request, CandidateJobs& found)
      : flags_(flags), request_(request), found_(found) {}

  absl::StatusOr<VerificationNotes> Run() {
    // Holds interrupts until the scratch directory has been removed, so that an interrupt leaves no files
    // behind.
    const InterruptsHeld held;
    TETHYS_ASSIGN_OR_RETURN(const ScratchDirectory scratch, ScratchDirectory::Create());
    std::vector<int> alive = ToVerify(found_.candidates, request_.goal, request_.most);
    TETHYS_RETURN_IF_ERROR(Place(alive));
    for (int round = 0; round < kRounds && !alive.empty(); ++round) {
      const int least = request_.extend ? 2 : 1;
      if (round > 0 && alive.size() < 2) break;
      if (round >= least && clock_.Now() > request_.until) break;
      PrintLine(absl::StrCat("verifying ", PluralText(static_cast<int64_t>(alive.size()), "candidate"),
                             ", round ", round + 1));
      TETHYS_RETURN_IF_ERROR(RunRound(round, scratch.path(), alive));
      if (!request_.extend || round + 1 == kRounds) continue;
      std::vector<int> next = ToVerifyNext(found_.candidates, kMostAdded);
      // A candidate that has places but no measurement has failed, so it is not tried again.
      std::erase_if(next, [&](int index) { return place_of_.count(index) > 0; });
      TETHYS_RETURN_IF_ERROR(Place(next));
      alive.insert(alive.end(), next.begin(), next.end());
    }
    PutFailedAside();
    if (!others_.empty()) notes_.others_cpu = Median(std::move(others_));
    return std::move(notes_);
  }

 private:
  absl::Status Place(const std::vector<int>& added) {
    std::vector<ShapedJob> jobs;
    for (const int index : added) jobs.push_back(found_.jobs[index]);
    if (jobs.empty()) return absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(std::vector<Places> places, PlaceBriefly(flags_, jobs));
    for (size_t i = 0; i < added.size(); ++i) place_of_[added[i]] = std::move(places[i]);
    return absl::OkStatus();
  }

  absl::Status RunRound(int round, const std::string& scratch, std::vector<int>& alive) {
    Shuffle(alive, round);
    double best = 0;
    for (const int index : alive) {
      TETHYS_RETURN_IF_ERROR(RunCandidate(index, absl::StrCat(scratch, "/run-", ++runs_)));
      if (failed_.count(index) == 0) best = std::max(best, Median(found_.candidates[index].measured));
    }
    if (failed_.size() == place_of_.size())
      return Annotate(first_failure_, "no candidate can run on these machines");
    std::erase_if(alive, [&](int index) { return failed_.count(index) > 0; });
    // With a goal, a slow candidate that costs less may be the best, so no candidate is dropped.
    if (request_.goal.deadline.has_value() || request_.goal.budget.has_value()) return absl::OkStatus();
    std::erase_if(alive, [&](int index) { return IsSlower(found_.candidates[index], best); });
    return absl::OkStatus();
  }

  // Makes a brief run of a candidate. If the run fails, adds the candidate to failed_. Cancelled: the user
  // interrupted.
  absl::Status RunCandidate(int index, const std::string& run_dir) {
    Candidate& candidate = found_.candidates[index];
    const absl::StatusOr<BriefRun> run = RunBriefly(
        found_.jobs[index], place_of_[index], StepsFor(kBriefSeconds, candidate.prediction.step().value()),
        run_dir, flags_.GetAll("cuda_library_path"));
    if (absl::IsCancelled(run.status())) return run.status();
    if (!run.ok()) {
      PrintLine(absl::StrCat("not considered any more: ", run.status().message()));
      if (failed_.empty()) first_failure_ = run.status();
      failed_.insert(index);
      // Keeps only the first line of the error, because the lines after it are from a log.
      const std::string message(run.status().message());
      notes_.put_aside.push_back(message.substr(0, message.find('\n')));
      return absl::OkStatus();
    }
    candidate.measured.push_back(run->times.samples_per_second);
    const absl::optional<double> others = OthersCpuOf(run->summary);
    if (others.has_value()) others_.push_back(*others);
    // Most brief runs use synthetic data. Such runs show nothing about the gradients of the job.
    const std::string noise = run->plan.job().data().has_synthetic() ? "" : NoiseScaleText(run->summary);
    if (!noise.empty()) notes_.noise = noise;
    return absl::OkStatus();
  }

  void PutFailedAside() {
    for (auto index = failed_.rbegin(); index != failed_.rend(); ++index) {
      found_.candidates.erase(found_.candidates.begin() + *index);
      found_.jobs.erase(found_.jobs.begin() + *index);
    }
  }

  // True if the candidate is so slow that another run is unlikely to make it the best. Another program may
  // have disturbed a single run, so after a single run the prediction must also be slower than the best.
  static bool IsSlower(const Candidate& candidate, double best) {
    const double fastest = *std::max_element(candidate.measured.begin(), candidate.measured.end());
    const double predicted = candidate.prediction.samples_per_second().high();
    return std::max(fastest, candidate.measured.size() == 1 ? predicted : 0) < best * (1 - kDropped);
  }

  // The order differs from round to round, so that a machine that becomes slower affects all candidates
  // alike.
  void Shuffle(std::vector<int>& indices, int round) const {
    uint64_t state = request_.seed + static_cast<uint64_t>(round) + 1;
    for (size_t i = indices.size(); i > 1; --i) {
      state = Fnv1a(&state, sizeof(state));
      std::swap(indices[i - 1], indices[state % i]);
    }
  }

  const MonotonicClock clock_;
  const Flags& flags_;
  const VerificationRequest& request_;
  CandidateJobs& found_;
  std::map<int, Places> place_of_;  // The places of the candidates that were verified, by candidate.
  std::set<int> failed_;            // Candidates with a failed brief run.
  absl::Status first_failure_;      // The error of the first brief run that failed.
  std::vector<double> others_;      // The share of the CPU that other programs used, by run.
  int runs_ = 0;
  VerificationNotes notes_;
};

}  // namespace

absl::StatusOr<VerificationNotes> VerifyCandidates(const Flags& flags, const VerificationRequest& request,
                                                   CandidateJobs& found) {
  return Verifying(flags, request, found).Run();
}

}  // namespace tethys
