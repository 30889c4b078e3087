#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/command/advice_changes.h"
#include "deploy/command/advice_text.h"
#include "deploy/command/calibration_run.h"
#include "deploy/command/candidate_job.h"
#include "deploy/command/command.h"
#include "deploy/command/initial_values.h"
#include "deploy/command/job_places.h"
#include "deploy/command/job_prediction.h"
#include "deploy/command/probe_run.h"
#include "deploy/command/role_process.h"
#include "deploy/command/shaped_job.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/predict/advice.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/predict/what_if.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/text.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/quantile.h"
#include "runtime/base/random.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

constexpr double kBriefSeconds = 1.5;  // Steps of one brief run.
constexpr int kRounds = 3;
constexpr int64_t kMostProbeEpochs = 1000;
constexpr double kDropped = 0.1;  // A candidate that is so much slower than the best is not run again.

struct Request {
  BaseJob base;
  AdviceGoal goal;
  int verify = 6;
  double seconds = 90;
  bool tls = false;
  absl::optional<WhatIf> what_if;
  int probe_epochs = 0;  // 0: none.
};

// InvalidArgument: what an hour on some host costs is not known, so no budget can be kept.
absl::Status CheckBudget(const Request& request) {
  const BaseJob& base = request.base;
  const bool of_all = base.plan.job().price_per_hour() > 0 ||
                      (request.what_if.has_value() && request.what_if->price.has_value());
  if (!request.goal.budget.has_value() || of_all) return absl::OkStatus();
  const auto unknown = std::find_if(base.hosts.begin(), base.hosts.end(),
                                    [](const HostEntry& host) { return !host.price_per_hour.has_value(); });
  if (!base.hosts.empty() && unknown == base.hosts.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--budget: what an hour on ", base.hosts.empty() ? "this machine" : unknown->host,
      " costs is not known: give the price of all machines together by --set=price_per_hour=AMOUNT",
      base.hosts.empty() ? "" : ", or that of each host by price= in the host file"));
}

absl::StatusOr<Request> ReadRequest(const Flags& flags) {
  Request request;
  if (flags.Has("deadline")) {
    const absl::StatusOr<int64_t> deadline = ParseDuration(flags.Get("deadline"), "smhd");
    if (!deadline.ok()) return Annotate(deadline.status(), "--deadline");
    request.goal.deadline = static_cast<double>(*deadline);
  }
  if (flags.Has("budget")) {
    double budget = 0;
    if (!absl::SimpleAtod(flags.Get("budget"), &budget) || !(budget > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--budget=", flags.Get("budget"), ": write an amount above 0, in the currency of the prices"));
    }
    request.goal.budget = budget;
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t verify, flags.GetInteger("verify", 6, 0, 64));
  TETHYS_ASSIGN_OR_RETURN(const int64_t seconds, flags.GetInteger("seconds", 90, 10, 86400));
  request.verify = static_cast<int>(verify);
  request.seconds = static_cast<double>(seconds);
  TETHYS_ASSIGN_OR_RETURN(request.tls, WantsTls(flags));
  if (flags.Has("what_if")) {
    TETHYS_ASSIGN_OR_RETURN(request.what_if, ParseWhatIf(flags.GetAll("what_if")));
  }
  TETHYS_ASSIGN_OR_RETURN(request.base, LoadBaseJob(flags));
  const absl::Status initial = CheckInitialValues(request.base.plan);
  if (!initial.ok()) return WithPlace(initial, request.base.file, request.base.set);
  TETHYS_RETURN_IF_ERROR(CheckBudget(request));
  if (!flags.Has("probe_epochs")) return request;
  if (request.what_if.has_value()) {
    return absl::InvalidArgumentError(
        "--probe_epochs trains on the machines that are there: leave it or --what_if out");
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t probe_epochs,
                          flags.GetInteger("probe_epochs", 0, 1, kMostProbeEpochs));
  request.probe_epochs = static_cast<int>(probe_epochs);
  TETHYS_RETURN_IF_ERROR(CheckProbes(request.base, request.probe_epochs));
  return request;
}

// The calibration that the user names, the one that was kept, or a new one, which is kept where that works.
absl::StatusOr<proto::Calibration> FindCalibration(const Flags& flags, const Request& request) {
  const BaseJob& base = request.base;
  TETHYS_ASSIGN_OR_RETURN(const ShapedJob local, ShapeJob(base, {"local", 1, 0}));
  const std::string named = flags.Get("calibration");
  absl::StatusOr<proto::Calibration> kept = FindCalibration(local.plan, local.machines, request.tls, named);
  if (kept.ok()) {
    const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
    PrintLine(absl::StrCat("by what was calibrated ", AgeText(kept->made(), now)));
    return kept;
  }
  if (!named.empty() || !absl::IsNotFound(kept.status())) return kept.status();
  PrintLine("nothing was calibrated for this build, model and machines, so that comes first");
  TETHYS_ASSIGN_OR_RETURN(const proto::Calibration made,
                          MeasureCalibration(flags, {.base = base, .seconds = request.seconds / 2}));
  // The answer does not depend on keeping it, and a user of a container may have no home folder.
  const absl::StatusOr<std::string> path = KeptCalibrationPath(local.plan, local.machines, request.tls);
  const absl::Status stored = path.ok() ? WriteCalibration(*path, made) : path.status();
  if (!stored.ok()) PrintLine(absl::StrCat("the calibration is not kept: ", stored.message()));
  return made;
}

class Advising {
 public:
  Advising(const Flags& flags, const Request& request)
      : flags_(flags), request_(request), base_(request.base) {}

  absl::Status Run() {
    const Nanoseconds begin = clock_.Now();
    TETHYS_ASSIGN_OR_RETURN(calibration_, FindCalibration(flags_, request_));
    if (request_.what_if.has_value()) TETHYS_RETURN_IF_ERROR(SupposeMachines());
    TETHYS_RETURN_IF_ERROR(FindCandidates());
    if (request_.probe_epochs > 0 && FastestAsynchronous() < 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--probe_epochs: the job allows no asynchronous training on these machines, so there is "
          "nothing to probe: ",
          absl::StrJoin(notes_.left_out, "; ")));
    }
    if (!request_.what_if.has_value()) TETHYS_RETURN_IF_ERROR(Verify(begin));
    const Advice advice = Choose(candidates_, request_.goal);
    notes_.supposed = supposed_.text;
    notes_.changes = AdviceChanges({base_, candidates_, jobs_, request_.goal, calibration_});
    std::printf("\n%s", AdviceText(candidates_, advice, request_.goal, notes_).c_str());
    TETHYS_ASSIGN_OR_RETURN(const std::string path, WriteBest(jobs_[advice.best]));
    std::printf("\nThe job to run: %s (answered in %s)\n", path.c_str(),
                TimeText(ToSeconds(clock_.Now() - begin)).c_str());
    return request_.probe_epochs > 0 ? Probe(jobs_[advice.best]) : absl::OkStatus();
  }

 private:
  absl::Status SupposeMachines() {
    TETHYS_ASSIGN_OR_RETURN(supposed_, Suppose(*request_.what_if, base_.hosts, calibration_));
    calibration_ = supposed_.calibration;
    base_.price_per_hour = supposed_.price_here;
    if (supposed_.slots_here > 0) base_.slots = supposed_.slots_here;
    if (!supposed_.hosts.empty()) UseHosts(supposed_.hosts, base_);
    return absl::OkStatus();
  }

  absl::Status FindCandidates() {
    for (const JobShape& shape : AllShapes(base_.slots)) {
      absl::StatusOr<ShapedJob> job = ShapeJob(base_, shape);
      absl::StatusOr<Candidate> candidate = job.ok() ? PredictCandidate(*job, calibration_) : job.status();
      if (!candidate.ok()) {
        notes_.left_out.insert(absl::StrCat(shape.strategy, ": ", candidate.status().message()));
        continue;
      }
      if (request_.what_if.has_value()) MarkSupposed(supposed_, candidate->prediction);
      candidates_.push_back(*std::move(candidate));
      jobs_.push_back(*std::move(job));
    }
    for (const Candidate& candidate : candidates_) {
      if (candidate.synchronous()) return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the job cannot run on these machines: ", absl::StrJoin(notes_.left_out, "; ")));
  }

  // Rounds of brief runs in random order; those that are clearly slower leave.
  absl::Status Verify(Nanoseconds begin) {
    std::vector<int> alive = ToVerify(candidates_, request_.goal, request_.verify);
    if (alive.empty()) return absl::OkStatus();
    std::vector<ShapedJob> jobs;
    for (const int index : alive) jobs.push_back(jobs_[index]);
    TETHYS_ASSIGN_OR_RETURN(const std::vector<Places> places, PlaceBriefly(flags_, jobs));
    // Released when the folder has been removed, so an interrupt leaves nothing behind.
    const InterruptsHeld held;
    TETHYS_ASSIGN_OR_RETURN(const ScratchDirectory scratch, ScratchDirectory::Create());
    std::map<int, const Places*> place_of;
    for (size_t i = 0; i < alive.size(); ++i) place_of[alive[i]] = &places[i];
    const size_t verified = alive.size();
    int runs = 0;
    for (int round = 0; round < kRounds && (round == 0 || alive.size() > 1); ++round) {
      if (round > 0 && ToSeconds(clock_.Now() - begin) > request_.seconds) break;
      PrintLine(absl::StrCat("verifying ", PluralText(alive.size(), "candidate"), ", round ", round + 1));
      Shuffle(alive, round);
      double best = 0;
      for (const int index : alive) {
        const std::string run_dir = absl::StrCat(scratch.path(), "/run-", ++runs);
        TETHYS_RETURN_IF_ERROR(RunCandidate(index, *place_of[index], run_dir));
        if (failed_.count(index) == 0) best = std::max(best, Median(candidates_[index].measured));
      }
      if (failed_.size() == verified) return Annotate(first_failure_, "no candidate runs here");
      std::erase_if(alive, [&](int index) { return failed_.count(index) > 0; });
      // With a goal, the best may be a slow one that costs less.
      if (request_.goal.deadline.has_value() || request_.goal.budget.has_value()) continue;
      std::erase_if(alive, [&](int index) { return IsSlower(candidates_[index], best); });
    }
    PutFailedAside();
    return absl::OkStatus();
  }

  // A brief run of a candidate. If it fails, the candidate is among failed_; Cancelled: the user interrupted.
  absl::Status RunCandidate(int index, const Places& places, const std::string& run_dir) {
    Candidate& candidate = candidates_[index];
    const absl::StatusOr<BriefRun> run =
        RunBriefly(jobs_[index], places, StepsFor(kBriefSeconds, candidate.prediction.step().value()),
                   run_dir, flags_.GetAll("cuda_library_path"));
    if (absl::IsCancelled(run.status())) return run.status();
    if (!run.ok()) {
      PrintLine(absl::StrCat("put aside: ", run.status().message()));
      if (failed_.empty()) first_failure_ = run.status();
      failed_.insert(index);
      const std::string message(run.status().message());  // Its first line; the others are from a log.
      notes_.put_aside.push_back(message.substr(0, message.find('\n')));
      return absl::OkStatus();
    }
    candidate.measured.push_back(run->times.samples_per_second);
    // Samples of noise, on which most brief runs train, say nothing about the job's gradients.
    const std::string noise = run->plan.job().data().has_synthetic() ? "" : NoiseScaleText(run->summary);
    if (!noise.empty()) notes_.noise = noise;
    return absl::OkStatus();
  }

  void PutFailedAside() {
    for (auto index = failed_.rbegin(); index != failed_.rend(); ++index) {
      candidates_.erase(candidates_.begin() + *index);
      jobs_.erase(jobs_.begin() + *index);
    }
  }

  // Whether another run of the candidate could hardly make it the best. Of a single run, which another
  // program may have disturbed, this is only believed where the prediction says so, too.
  static bool IsSlower(const Candidate& candidate, double best) {
    const double fastest = *std::max_element(candidate.measured.begin(), candidate.measured.end());
    const double predicted = candidate.prediction.samples_per_second().high();
    return std::max(fastest, candidate.measured.size() == 1 ? predicted : 0) < best * (1 - kDropped);
  }

  // The order differs by round, so that a machine that grows slower does so for all.
  void Shuffle(std::vector<int>& indices, int round) const {
    uint64_t state = request_.base.plan.job().seed() + static_cast<uint64_t>(round) + 1;
    for (size_t i = indices.size(); i > 1; --i) {
      state = Fnv1a(&state, sizeof(state));
      std::swap(indices[i - 1], indices[state % i]);
    }
  }

  // The asynchronous candidate of the shortest run; -1: there is none.
  int FastestAsynchronous() const {
    int fastest = -1;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].synchronous()) continue;
      if (fastest < 0 || candidates_[i].total() < candidates_[fastest].total()) fastest = static_cast<int>(i);
    }
    return fastest;
  }

  // Compares the updates of `best` with those of the fastest asynchronous job and its stale-synchronous twin.
  absl::Status Probe(const ShapedJob& best) const {
    const int fastest = FastestAsynchronous();
    std::vector<ShapedJob> jobs = {best, jobs_[fastest]};
    JobShape shape = jobs_[fastest].shape;
    shape.strategy = "ps_stale";
    absl::StatusOr<ShapedJob> stale = ShapeJob(base_, shape);
    if (stale.ok()) {
      jobs.push_back(*std::move(stale));
    } else {
      PrintLine(absl::StrCat("not probed: ", shape.strategy, ": ", stale.status().message()));
    }
    TETHYS_ASSIGN_OR_RETURN(const std::string text, RunProbes(flags_, jobs, request_.probe_epochs));
    std::printf("\n%s", text.c_str());
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> WriteBest(const ShapedJob& best) const {
    const std::string given = flags_.Get("out");
    if (!given.empty()) {
      TETHYS_RETURN_IF_ERROR(WriteFileAtomically(given, ResolvedText(best.plan.job())));
      return given;
    }
    TETHYS_ASSIGN_OR_RETURN(
        const RunDirectory directory,
        RunDirectory::Create(FreshRunPath(absl::StrCat("advise-", best.plan.job().name()))));
    TETHYS_RETURN_IF_ERROR(directory.WriteJob(best.plan.job()));
    return directory.job_file();
  }

  const MonotonicClock clock_;
  const Flags& flags_;
  const Request& request_;
  BaseJob base_;  // On the supposed machines, if there are any.
  proto::Calibration calibration_;
  Supposition supposed_;  // By --what_if; without it, empty.
  std::vector<Candidate> candidates_;
  std::vector<ShapedJob> jobs_;  // By candidate.
  std::set<int> failed_;         // Candidates of which a brief run failed.
  absl::Status first_failure_;   // Among these runs.
  AdviceNotes notes_;
};

int Advise(const Flags& flags) {
  const absl::StatusOr<Request> request = ReadRequest(flags);
  if (!request.ok()) return Fail("advise", request.status(), kExitBadRequest);
  const absl::Status advised = Advising(flags, *request).Run();
  if (!advised.ok()) {
    return Fail("advise", advised, absl::IsInvalidArgument(advised) ? kExitBadRequest : kExitFailed);
  }
  return kExitSuccess;
}

}  // namespace

Command AdviseCommand() {
  return {
      {.verb = "advise",
       .summary = "Says which strategy, how many workers and servers suit a job, before it is run.",
       .description =
           "Predicts the job with its global batch under every strategy and number of processes for which "
           "the "
           "machines have slots, verifies the best by brief runs on synthetic samples in random order, and "
           "answers with a sentence, a table (predicted, measured), what the choice costs, and a job file to "
           "run. Asynchronous training changes the updates, so it is listed apart: its epochs to an accuracy "
           "are not known before a run. Measures a calibration first if none was kept.",
       .argument = "JOB",
       .flags = WithClusterFlags(
           {SetFlag(),
            {.name = "deadline",
             .value = "TIME",
             .help =
                 "The whole run is to take at most this: 90s, 30m, 2h. With prices, the cheapest within it "
                 "is chosen."},
            {.name = "budget",
             .value = "AMOUNT",
             .help =
                 "The whole run is to cost at most this, by the job's price_per_hour or the prices of the "
                 "host file."},
            {.name = "verify",
             .value = "N",
             .help = "The most candidates to verify by brief runs; 0: none. Default 6."},
            {.name = "seconds",
             .value = "N",
             .help = "After this time, no further round of brief runs begins. Default 90."},
            {.name = "probe_epochs",
             .value = "N",
             .help = "Afterwards trains the job, the fastest asynchronous job and its stale-synchronous twin "
                     "for the job's first N epochs on its data, and compares their validation loss at equal "
                     "numbers of samples."},
            {.name = "calibration",
             .value = "FILE",
             .help = "A file of `tethys calibrate`. Default: the one that was kept, or a new one."},
            {.name = "out",
             .value = "FILE",
             .help = "Where to write the job to run. Default: in a new runs/advise-NAME-DATE-TIME."},
            WhatIfFlag("Answers without verifying"),
            CudaLibraryPathFlag()}),
       .examples = {"tethys advise examples/fashion_mnist_ps_sync.textproto",
                    "tethys advise examples/fashion_mnist_ps_sync.textproto --probe_epochs=2",
                    "tethys advise examples/okeanos/mirrored.textproto --hostfile=hosts --deadline=30m",
                    "tethys advise examples/okeanos/mirrored.textproto --hostfile=hosts "
                    "--what_if=hosts=32,link=10gbit"}},
      Advise};
}

}  // namespace tethys
