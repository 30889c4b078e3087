#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/advise/advice_changes.h"
#include "deploy/advise/advice_text.h"
#include "deploy/advise/calibration_run.h"
#include "deploy/advise/candidate_job.h"
#include "deploy/advise/probe_run.h"
#include "deploy/advise/shaped_job.h"
#include "deploy/advise/verification.h"
#include "deploy/command/verbs.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/predict/advice.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/predict/disturbance.h"
#include "deploy/predict/host_uses.h"
#include "deploy/predict/what_if.h"
#include "deploy/report/normalisation.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_prediction.h"
#include "deploy/run/role_process.h"
#include "deploy/shape_words.h"
#include "deploy/text.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr int64_t kMostProbeEpochs = 1000;
// The most candidates to verify: kVerified if all hosts are equal, kVerifiedUses if they differ.
constexpr int kVerified = 6, kVerifiedUses = 10;

struct Request {
  BaseJob base;
  AdviceGoal goal;
  // The most candidates to verify; nullopt: the default, which depends on the hosts.
  absl::optional<int> verify;
  double seconds = 90;
  double most_others_cpu = kMostOthersCpu;
  bool tls = false;
  absl::optional<WhatIf> what_if;
  int probe_epochs = 0;  // The epochs of each probe run; 0: no probe runs.
};

// InvalidArgument: there is a budget, but the price per hour is not known for every host.
absl::Status CheckBudget(const Request& request) {
  const BaseJob& base = request.base;
  const bool of_all = base.plan.job().price_per_hour() > 0 ||
                      (request.what_if.has_value() && request.what_if->price.has_value());
  if (!request.goal.budget.has_value() || of_all) return absl::OkStatus();
  const auto unknown = std::find_if(base.hosts.begin(), base.hosts.end(),
                                    [](const HostEntry& host) { return !host.price_per_hour.has_value(); });
  if (!base.hosts.empty() && unknown == base.hosts.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--budget: the price per hour on ", base.hosts.empty() ? "this machine" : unknown->host,
                   " is not known: give the price of all machines together by --set=price_per_hour=AMOUNT",
                   base.hosts.empty() ? "" : ", or the price of each host by price= in the host file"));
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
      return absl::InvalidArgumentError(
          absl::StrCat("--budget=", flags.Get("budget"), ": write an amount above 0, ", kCostUnit));
    }
    request.goal.budget = budget;
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t verify, flags.GetInteger("verify", kVerified, 0, 64));
  TETHYS_ASSIGN_OR_RETURN(const int64_t seconds, flags.GetInteger("seconds", 90, 10, 86400));
  if (flags.Has("verify")) request.verify = static_cast<int>(verify);
  TETHYS_ASSIGN_OR_RETURN(request.most_others_cpu, flags.GetPercent("max_others_cpu", kMostOthersCpu));
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
        "--probe_epochs trains on real machines: leave out --probe_epochs or --what_if");
  }
  TETHYS_ASSIGN_OR_RETURN(const int64_t probe_epochs,
                          flags.GetInteger("probe_epochs", 0, 1, kMostProbeEpochs));
  request.probe_epochs = static_cast<int>(probe_epochs);
  TETHYS_RETURN_IF_ERROR(CheckProbes(request.base, request.probe_epochs));
  return request;
}

// Makes a new calibration and stores it if possible.
absl::StatusOr<proto::Calibration> Calibrate(const Flags& flags, const Request& request) {
  const BaseJob& base = request.base;
  TETHYS_ASSIGN_OR_RETURN(const ShapedJob local, ShapeJob(base, {StrategyFamily::kLocal, 1, 0}));
  TETHYS_ASSIGN_OR_RETURN(
      const proto::Calibration made,
      MeasureCalibration(
          flags, {.base = base, .seconds = request.seconds / 2, .most_others_cpu = request.most_others_cpu}));
  // Storing is optional: the answer does not depend on it, and a user of a container may have no home folder.
  const absl::StatusOr<std::string> path = KeptCalibrationPath(local.plan, local.machines, request.tls);
  const absl::Status stored = path.ok() ? WriteCalibration(*path, made) : path.status();
  if (!stored.ok()) PrintLine(absl::StrCat("the calibration could not be stored: ", stored.message()));
  return made;
}

struct FoundCalibration {
  proto::Calibration calibration;
  bool kept = false;  // True if the calibration was stored earlier and the user has not named it.
};

// The calibration that the user names, otherwise the stored calibration, otherwise a new calibration.
absl::StatusOr<FoundCalibration> FindCalibration(const Flags& flags, const Request& request) {
  TETHYS_ASSIGN_OR_RETURN(const ShapedJob local, ShapeJob(request.base, {StrategyFamily::kLocal, 1, 0}));
  const std::string named = flags.Get("calibration");
  absl::StatusOr<proto::Calibration> kept = FindCalibration(local.plan, local.machines, request.tls, named);
  if (kept.ok()) {
    const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
    const Disturbance disturbance = DisturbanceOf(*kept);
    const std::string what = absl::StrCat("the calibration made ", AgeText(kept->made(), now));
    const absl::Status sound =
        CheckDisturbance(disturbance, request.most_others_cpu, absl::StrCat("no answer from ", what));
    if (sound.ok()) {
      PrintLine(
          absl::StrCat("predicting from ", what, "; during the calibration, ", DisturbanceText(disturbance)));
      return FoundCalibration{*std::move(kept), named.empty()};
    }
    if (!named.empty()) return sound;
    PrintLine(absl::StrCat(what, " is not used, because ", DisturbanceText(disturbance),
                           " during this calibration: calibrating again"));
  } else if (!named.empty() || !absl::IsNotFound(kept.status())) {
    return kept.status();
  } else {
    PrintLine("no calibration is stored for this build, model and machines: calibrating first");
  }
  TETHYS_ASSIGN_OR_RETURN(proto::Calibration made, Calibrate(flags, request));
  return FoundCalibration{std::move(made), false};
}

class Advising {
 public:
  Advising(const Flags& flags, const Request& request)
      : flags_(flags), request_(request), base_(request.base) {}

  absl::Status Run() {
    const Nanoseconds begin = clock_.Now();
    if (!request_.what_if.has_value() && request_.verify.value_or(1) > 0) {
      TETHYS_RETURN_IF_ERROR(CheckHostsForData(flags_, base_));
    }
    TETHYS_ASSIGN_OR_RETURN(FoundCalibration found, FindCalibration(flags_, request_));
    calibration_ = std::move(found.calibration);
    if (request_.what_if.has_value()) TETHYS_RETURN_IF_ERROR(SupposeMachines());
    TETHYS_RETURN_IF_ERROR(FindAndVerify(begin));
    if (found.kept && IsOutdated()) {
      PrintLine(
          "the throughput of most brief runs lies outside the intervals predicted from the stored "
          "calibration: calibrating again");
      TETHYS_ASSIGN_OR_RETURN(calibration_, Calibrate(flags_, request_));
      TETHYS_RETURN_IF_ERROR(FindAndVerify(clock_.Now()));
    }
    const Advice advice = Choose(found_.candidates, request_.goal);
    AddNotes(advice);
    std::printf("\n%s", AdviceText(found_.candidates, advice, request_.goal, notes_).c_str());
    TETHYS_RETURN_IF_ERROR(WriteBest(found_.jobs[advice.best]));
    std::printf("(answered in %s)\n", TimeText(ToSeconds(clock_.Now() - begin)).c_str());
    return request_.probe_epochs > 0 ? Probe(found_.jobs[advice.best]) : absl::OkStatus();
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

  // `begin`: the time from which --seconds counts.
  absl::Status FindAndVerify(Nanoseconds begin) {
    const bool supposes = request_.what_if.has_value();
    TETHYS_ASSIGN_OR_RETURN(found_, FindCandidates(base_, calibration_, [&](proto::Prediction& prediction) {
                              if (supposes) MarkSupposed(supposed_, prediction);
                            }));
    if (request_.probe_epochs > 0 && FastestAsynchronous() < 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--probe_epochs: the job allows no asynchronous training on these machines, so there is "
          "nothing to probe: ",
          absl::StrJoin(found_.left_out, "; ")));
    }
    const bool hosts_differ = std::any_of(found_.candidates.begin(), found_.candidates.end(),
                                          [](const Candidate& candidate) { return !candidate.use.empty(); });
    const int most = request_.verify.value_or(hosts_differ ? kVerifiedUses : kVerified);
    if (supposes || most == 0) return absl::OkStatus();
    TETHYS_ASSIGN_OR_RETURN(
        verified_, VerifyCandidates(flags_,
                                    {.goal = request_.goal,
                                     .most = most,
                                     .until = begin + static_cast<Nanoseconds>(request_.seconds * kSecond),
                                     .extend = hosts_differ,
                                     .seed = base_.plan.job().seed()},
                                    found_));
    return CheckDisturbance({.share = verified_.others_cpu.value_or(0), .host = {}}, request_.most_others_cpu,
                            "the brief runs give no answer");
  }

  // True if the calibration no longer describes the machines.
  bool IsOutdated() const {
    int verified = 0, contradicted = 0;
    for (const Candidate& candidate : found_.candidates) {
      verified += candidate.measured.empty() ? 0 : 1;
      contradicted += candidate.contradicted() ? 1 : 0;
    }
    return 2 * contradicted > verified;
  }

  void AddNotes(const Advice& advice) {
    notes_.supposed = supposed_.text;
    notes_.source = CalibratedText(calibration_);
    notes_.calibration_disturbed = DisturbanceOf(calibration_).share > kDisturbed;
    notes_.others_cpu = verified_.others_cpu.value_or(0);
    notes_.put_aside = verified_.put_aside;
    notes_.noise = verified_.noise;
    notes_.left_out = found_.left_out;
    const ShapedJob& best = found_.jobs[advice.best];
    notes_.normalisation = NormalisationRemark(best.plan.job());
    if (!base_.hosts.empty()) notes_.places = PlacesText(base_.hosts, best.machines);
    // Looks for changes of the answer only among candidates that use the hosts as the host file does, or as
    // the answer does.
    std::vector<Candidate> candidates;
    std::vector<ShapedJob> jobs;
    for (size_t i = 0; i < found_.candidates.size(); ++i) {
      const std::string& use = found_.candidates[i].use;
      if (!use.empty() && use != found_.candidates[advice.best].use) continue;
      candidates.push_back(found_.candidates[i]);
      jobs.push_back(found_.jobs[i]);
    }
    notes_.changes = AdviceChanges({base_, candidates, jobs, request_.goal, calibration_});
  }

  // The index of the asynchronous candidate with the shortest run; -1 if there is no such candidate.
  int FastestAsynchronous() const {
    int fastest = -1;
    const std::vector<Candidate>& candidates = found_.candidates;
    for (size_t i = 0; i < candidates.size(); ++i) {
      // Probes use the hosts exactly as the host file describes them.
      if (candidates[i].synchronous() || !candidates[i].use.empty()) continue;
      if (fastest < 0 || candidates[i].total() < candidates[fastest].total()) fastest = static_cast<int>(i);
    }
    return fastest;
  }

  // Trains and compares three jobs: `best`, the fastest asynchronous job, and that asynchronous job with the
  // stale-synchronous strategy instead.
  absl::Status Probe(const ShapedJob& best) const {
    const int fastest = FastestAsynchronous();
    std::vector<ShapedJob> jobs = {best, found_.jobs[fastest]};
    AnchorShape shape = found_.jobs[fastest].shape;
    shape.strategy = StrategyFamily::kStaleSynchronous;
    absl::StatusOr<ShapedJob> stale = ShapeJob(base_, shape);
    if (stale.ok()) {
      jobs.push_back(*std::move(stale));
    } else {
      PrintLine(absl::StrCat("not probed: ", StrategyName(shape.strategy), ": ", stale.status().message()));
    }
    TETHYS_ASSIGN_OR_RETURN(const std::string text, RunProbes(flags_, jobs, request_.probe_epochs));
    std::printf("\n%s", text.c_str());
    return absl::OkStatus();
  }

  // Writes the job file and, if the job uses the hosts in another way than the host file, a host file beside
  // the job file.
  absl::Status WriteBest(const ShapedJob& best) const {
    std::string job_file = flags_.Get("out"), host_file = flags_.Get("hostfile");
    if (!job_file.empty()) {
      TETHYS_RETURN_IF_ERROR(WriteFileAtomically(job_file, ResolvedText(best.plan.job())));
    } else {
      TETHYS_ASSIGN_OR_RETURN(
          const RunDirectory directory,
          RunDirectory::Create(FreshRunPath(absl::StrCat("advise-", best.plan.job().name()))));
      TETHYS_RETURN_IF_ERROR(directory.WriteJob(best.plan.job()));
      job_file = directory.job_file();
    }
    const bool own_hosts =
        best.hosts.size() != base_.hosts.size() || HostFileText(best.hosts) != HostFileText(base_.hosts);
    if (own_hosts && !request_.what_if.has_value()) {
      host_file = absl::StrCat(std::string(absl::StripSuffix(job_file, ".textproto")), ".hosts");
      TETHYS_RETURN_IF_ERROR(
          WriteFileAtomically(host_file, absl::StrCat("# By tethys advise, from ", flags_.Get("hostfile"),
                                                      ", for ", job_file, "\n", HostFileText(best.hosts))));
      // Stores the calibration for this host file, too.
      const absl::StatusOr<std::string> path = KeptCalibrationPath(best.plan, best.machines, request_.tls);
      if (path.ok()) WriteCalibration(*path, calibration_).IgnoreError();
    }
    std::printf("\nThe job to run: %s", job_file.c_str());
    if (request_.what_if.has_value()) {
      std::printf("\n");
      return absl::OkStatus();
    }
    std::printf("%s\n  tethys train %s%s\n",
                own_hosts ? absl::StrCat(" on the hosts in ", host_file).c_str() : "", job_file.c_str(),
                host_file.empty() ? "" : absl::StrCat(" --hostfile=", host_file).c_str());
    return absl::OkStatus();
  }

  const MonotonicClock clock_;
  const Flags& flags_;
  const Request& request_;
  BaseJob base_;  // The base job; with --what_if, on the supposed machines.
  proto::Calibration calibration_;
  Supposition supposed_;  // The supposed machines of --what_if; empty without this flag.
  CandidateJobs found_;
  VerificationNotes verified_;
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
       .summary = "Says which strategy and how many workers and servers suit a job, before it is run.",
       .description =
           "Predicts the speed of the job under every strategy and number of processes for which the "
           "machines have slots; the global batch stays the same. Then verifies the best candidates by "
           "brief runs on synthetic samples, in random order. The answer is a sentence, a table of "
           "predictions and measurements, the cost of the choice, and a job file to run. If hosts differ, "
           "the candidates also include uses of the hosts that leave out the slower hosts, or let them run "
           "only servers or only workers; the answer then has a host file, too. Asynchronous training is "
           "listed separately, because it changes the updates: how many epochs it needs to reach an "
           "accuracy is not known before a run. Without a stored calibration, or if other programs "
           "disturbed the stored calibration, advise calibrates first. It calibrates again if the brief "
           "runs contradict the calibration.",
       .argument = "JOB",
       .flags = WithClusterFlags(
           {SetFlag(),
            {.name = "deadline",
             .value = "TIME",
             .help = "The longest time that the whole job may take, such as 90s, 30m or 2h. With prices, the "
                     "cheapest candidate that keeps to this time is chosen."},
            {.name = "budget",
             .value = "AMOUNT",
             .help = "The most that the whole job may cost, in the currency of the job's price_per_hour or "
                     "of the "
                     "prices per hour in the host file."},
            {.name = "verify",
             .value = "N",
             .help = "The largest number of candidates to verify by brief runs; 0 verifies no candidate. "
                     "Default 6, or 10 if hosts differ."},
            {.name = "seconds",
             .value = "N",
             .help = "After this time, no further round of brief runs begins. Default 90."},
            {.name = "probe_epochs",
             .value = "N",
             .help = "After the answer, trains the chosen job, the fastest asynchronous job, and the same "
                     "job with the stale-synchronous strategy, on the job's data for N epochs, and compares "
                     "their validation loss at equal numbers of samples."},
            {.name = "calibration",
             .value = "FILE",
             .help = "A calibration that `tethys calibrate` wrote. Default: the stored calibration, or a "
                     "new calibration.",
             .is_input = true},
            {.name = "out",
             .value = "FILE",
             .help = "The file for the job to run. Default: job.textproto in a new directory "
                     "runs/advise-NAME-DATE-TIME."},
            WhatIfFlag("Answers without verifying"),
            MaxOthersCpuFlag("Gives no answer"),
            CudaLibraryPathFlag()}),
       .examples = {"tethys advise examples/fashion_mnist_ps_sync.textproto",
                    "tethys advise examples/fashion_mnist_ps_sync.textproto --probe_epochs=2",
                    "tethys advise examples/okeanos/mirrored.textproto --hostfile=hosts --deadline=30m",
                    "tethys advise examples/okeanos/mirrored.textproto --hostfile=hosts "
                    "--what_if=hosts=32,link=10gbit"}},
      Advise};
}

}  // namespace tethys
