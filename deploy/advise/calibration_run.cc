#include "deploy/advise/calibration_run.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/calibrate/computer_meter.h"
#include "deploy/hosts/host_check.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/predict/exchange_fit.h"
#include "deploy/predict/step_model.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/report/others_cpu.h"
#include "deploy/run/job_places.h"
#include "deploy/text.h"
#include "runtime/base/build_id.h"
#include "runtime/base/clock.h"
#include "runtime/job/job.h"

namespace tethys {
namespace {

// The share of the time of a calibration in which computers are measured.
constexpr double kComputerShare = 0.2;
// The share of the time of a calibration for the steps of brief runs; the time that is left is for the start
// and end of these runs.
constexpr double kRunShare = 0.5;
constexpr int kLinkRounds = 3;  // The number of other hosts to which the links of each host are measured.
// Like kLinkRounds, for hosts that share processors. The links of such hosts are measured one at a time, so
// each host is measured with one other host first, and with kLinkRounds hosts only if the links differ.
constexpr int kSharedRounds = 1;
// Two links differ if the ratio of their rates or the ratio of their delays is larger than this.
constexpr double kLinksDiffer = 1.5;
constexpr double kLeastDelay = 2e-4;  // In seconds. Shorter delays count as equal.
// The largest number of measurements of the computers, if other programs disturb the measurements.
constexpr int kMostMeasurements = 3;
// Seconds that a brief run is assumed to take besides its steps, until a first brief run has been made.
constexpr double kUsualRunStart = 2.5;

// The hosts that at least one shape uses, each host once.
std::vector<MeteredHost> HostsOf(const BaseJob& base, const std::vector<Places>& places) {
  const proto::Device::Kind device = base.plan.job().device().kind();
  if (base.hosts.empty()) {
    return {
        {.host = kThisMachine, .kind = "", .slots = base.slots, .device = device, .place = places[0].chief}};
  }
  std::map<std::string, Place> by_name;
  for (const Places& of_shape : places) {
    for (const auto* tasks : {&of_shape.workers, &of_shape.servers}) {
      for (const Place& place : *tasks) by_name.emplace(place.host, place);
    }
  }
  std::vector<MeteredHost> hosts;
  for (const HostEntry& entry : base.hosts) {
    const auto found = by_name.find(entry.host);
    if (found == by_name.end()) continue;
    hosts.push_back({.host = entry.host,
                     .kind = entry.kind,
                     .slots = entry.slots,
                     .device = entry.device.value_or(device),
                     .place = found->second});
  }
  return hosts;
}

// True if the rates or the delays of the measured links differ. Then one round of links does not show which
// of two hosts has the slower link.
bool Differ(const std::vector<CheckedLink>& links) {
  double least_rate = 0, most_rate = 0, least_delay = 0, most_delay = 0;
  for (const CheckedLink& link : links) {
    if (!link.speed.ok()) continue;
    const double rate = std::min(link.speed->there, link.speed->back);
    const double delay = std::max(kLeastDelay, link.speed->round_trip / 2);
    least_rate = least_rate == 0 ? rate : std::min(least_rate, rate);
    most_rate = std::max(most_rate, rate);
    least_delay = least_delay == 0 ? delay : std::min(least_delay, delay);
    most_delay = std::max(most_delay, delay);
  }
  return most_rate > kLinksDiffer * least_rate || most_delay > kLinksDiffer * least_delay;
}

absl::Status AddLinks(const BaseJob& base, const Flags& flags, const std::string& scratch,
                      proto::Calibration& calibration) {
  bool shared = false;
  std::set<std::string> kernels;
  for (const proto::ComputerCalibration& computer : calibration.computer()) {
    const bool known = !kernels.insert(computer.boot_id()).second;
    shared = shared || known || computer.host_size() > 1;
  }
  const auto measure = [&](int rounds) {
    return CheckCluster(
        {.entries = base.hosts, .hostfile = base.hostfile, .rounds = {.most = rounds, .one_at_once = shared}},
        {.ssh_config = flags.Get("ssh_config"), .scratch = scratch});
  };
  ClusterCheck check = measure(shared ? kSharedRounds : kLinkRounds);
  if (shared && Differ(check.links)) {
    PrintLine("the links differ in speed, so more links are measured");
    check = measure(kLinkRounds);
  }
  for (const CheckedLink& link : check.links) {
    const std::string& from = check.hosts[link.from].host;
    const std::string& to = check.hosts[link.to].host;
    if (!link.speed.ok()) {
      return Annotate(link.speed.status(), absl::StrCat("the link from ", from, " to ", to));
    }
    const auto add = [&](const std::string& source, const std::string& target, double rate) {
      proto::LinkCalibration& added = *calibration.add_link();
      added.set_from(source);
      added.set_to(target);
      added.set_delay(link.speed->round_trip / 2);
      added.set_bytes_per_second(rate);
      added.set_burst_bytes(BurstBytes(*link.speed));
    };
    add(from, to, link.speed->there);
    add(to, from, link.speed->back);
  }
  if (!check.links.empty()) return absl::OkStatus();
  for (const CheckedHost& host : check.hosts) {
    if (!host.links.ok()) return Annotate(host.links, absl::StrCat("the links of ", host.host));
  }
  return absl::OkStatus();
}

// The base job in every shape that the base job and its host file allow.
absl::StatusOr<std::vector<ShapedJob>> ShapesToRun(const BaseJob& base) {
  std::vector<ShapedJob> jobs;
  for (const AnchorShape& shape : AnchorShapes(base.slots, base.plan.global_batch())) {
    absl::StatusOr<ShapedJob> job = ShapeJob(base, shape);
    if (job.ok()) {
      jobs.push_back(*std::move(job));
    } else if (jobs.empty()) {
      return job.status();
    } else {
      PrintLine(absl::StrCat("left out: ", AnchorText(shape), ": ", job.status().message()));
    }
  }
  return jobs;
}

class CalibrationRun {
 public:
  CalibrationRun(const Flags& flags, const CalibrationRequest& request) : flags_(flags), request_(request) {}

  absl::StatusOr<proto::Calibration> Run() {
    signal(SIGPIPE, SIG_IGN);  // Then a write to a host whose connection is lost returns an error.
    TETHYS_ASSIGN_OR_RETURN(const std::vector<ShapedJob> jobs, ShapesToRun(request_.base));
    TETHYS_ASSIGN_OR_RETURN(const std::vector<Places> places, PlaceBriefly(flags_, jobs));
    // Holds interrupts until the scratch directory has been removed, so that an interrupt leaves no files
    // behind.
    const InterruptsHeld held;
    TETHYS_ASSIGN_OR_RETURN(const ScratchDirectory scratch, ScratchDirectory::Create());
    calibration_.set_build_id(BuildId());
    calibration_.set_model_signature(request_.base.plan.model_signature());
    calibration_.set_made(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
    calibration_.set_tls(places[0].tls);
    PrintLine(absl::StrCat("calibrating takes about ", TimeText(request_.seconds),
                           ", or longer if a step takes seconds"));
    TETHYS_RETURN_IF_ERROR(Measure(places, scratch.path()));
    TETHYS_RETURN_IF_ERROR(RunAll(jobs, places, scratch.path()));
    return std::move(calibration_);
  }

 private:
  absl::Status Measure(const std::vector<Places>& places, const std::string& scratch) {
    const BaseJob& base = request_.base;
    ComputerRequest computers{.plan = base.plan,
                              .batches = BatchesToMeasure(base.plan.global_batch(), base.slots),
                              .hosts = HostsOf(base, places),
                              .seconds = kComputerShare * request_.seconds,
                              .scratch = scratch,
                              .cuda_library_path = flags_.GetAll("cuda_library_path")};
    computers.shared_batch = computers.batches[computers.batches.size() / 2];
    TETHYS_RETURN_IF_ERROR(MeasureUndisturbed(computers));
    if (base.hosts.size() < 2) return absl::OkStatus();
    PrintLine("measuring links");
    return AddLinks(base, flags_, scratch, calibration_);
  }

  // Measures the computers. Repeats the measurement if other programs disturbed it, and keeps the least
  // disturbed measurement.
  absl::Status MeasureUndisturbed(const ComputerRequest& computers) {
    Disturbance least;
    for (int made = 0; made < kMostMeasurements; ++made) {
      PrintLine(absl::StrCat("measuring steps of ", PluralText(computers.batches.size(), "batch size"),
                             " on ", PluralText(computers.hosts.size(), "host"),
                             made == 0 ? "" : ", again, because other programs disturbed the measurement"));
      TETHYS_ASSIGN_OR_RETURN(const std::vector<proto::ComputerCalibration> measured,
                              MeasureComputers(computers));
      proto::Calibration all;
      all.mutable_computer()->Add(measured.begin(), measured.end());
      const Disturbance disturbance = DisturbanceOf(all);
      if (made == 0 || disturbance.share < least.share) {
        least = disturbance;
        *calibration_.mutable_computer() = std::move(*all.mutable_computer());
      }
      if (least.share <= kDisturbed) return absl::OkStatus();
      PrintLine(DisturbanceText(disturbance));
    }
    disturbed_all_the_time_ = true;
    return CheckDisturbance(least, request_.most_others_cpu, "nothing is calibrated");
  }

  // Makes a brief run of a shape; the costs of exchanging gradients are fitted to such runs. If other
  // programs disturbed the run, repeats it once and keeps the less disturbed run. Does not repeat the run if
  // other programs disturbed every measurement of the computers, because a repetition would not help.
  absl::Status RunOne(const ShapedJob& job, const Places& places, int64_t steps, const std::string& run_dir) {
    BriefRun kept;
    absl::optional<double> others;
    for (int made = 0; made < 2; ++made) {
      TETHYS_ASSIGN_OR_RETURN(BriefRun run, RunBriefly(job, places, steps, absl::StrCat(run_dir, "-", made),
                                                       flags_.GetAll("cuda_library_path")));
      const absl::optional<double> disturbed = OthersCpuOf(run.summary);
      if (made == 0 || disturbed < others) {
        kept = std::move(run);
        others = disturbed;
      }
      if (disturbed_all_the_time_ || others.value_or(0) <= kDisturbed) break;
      if (made == 0) {
        PrintLine(absl::StrCat(DisturbanceText({.share = *others, .host = {}}),
                               " during this brief run, so the run is repeated once"));
      }
    }
    // Under a CPU quota, most steps run without waiting, and a few steps wait for the next period of the
    // quota. The mean step counts these waits; the lower quartile does not.
    const bool by_quota =
        std::any_of(calibration_.computer().begin(), calibration_.computer().end(),
                    [](const proto::ComputerCalibration& computer) { return computer.cpu_quota() > 0; });
    runs_.push_back({.plan = kept.plan,
                     .machines = job.machines,
                     .step = by_quota ? kept.times.mean_step : kept.times.step,
                     .mean_step = kept.times.mean_step,
                     .others_cpu = others});
    summaries_.push_back(std::move(kept.summary));
    return absl::OkStatus();
  }

  absl::Status RunAll(const std::vector<ShapedJob>& jobs, const std::vector<Places>& places,
                      const std::string& scratch) {
    const double seconds = kRunShare * request_.seconds / static_cast<double>(jobs.size());
    std::vector<double> expected(jobs.size());  // Seconds of each run's steps; 0: the run is not made.
    std::vector<int64_t> steps(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      const absl::StatusOr<proto::Prediction> step = Predict(jobs[i].plan, jobs[i].machines, calibration_);
      if (absl::IsUnimplemented(step.status())) {
        calibration_.set_refusal(std::string(step.status().message()));
        continue;
      }
      TETHYS_RETURN_IF_ERROR(step.status());
      steps[i] = StepsFor(seconds, step->step().value());
      expected[i] = static_cast<double>(steps[i]) * step->step().value();
    }
    const MonotonicClock clock;
    double spent = 0, of_steps = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (expected[i] <= 0) continue;
      double left = 0;
      const double made = static_cast<double>(runs_.size());
      for (size_t j = i; j < jobs.size(); ++j) {
        if (expected[j] <= 0) continue;
        left += expected[j] + (made > 0 ? std::max(0.0, spent - of_steps) / made : kUsualRunStart);
      }
      PrintLine(absl::StrCat("running ", AnchorText(jobs[i].shape), "; about ", DurationText(left), " left"));
      const Nanoseconds begin = clock.Now();
      const absl::Status ran = RunOne(jobs[i], places[i], steps[i], absl::StrCat(scratch, "/run-", i));
      if (absl::IsCancelled(ran) || (!ran.ok() && runs_.empty())) return ran;
      // Runs of other shapes may still succeed: for example, a shape may leave out a host that lacks the
      // memory for a worker.
      if (!ran.ok()) PrintLine(absl::StrCat("a brief run is left out, because it failed: ", ran.message()));
      spent += ToSeconds(clock.Now() - begin);
      of_steps += expected[i];
    }
    *calibration_.mutable_overheads() = OverheadsOf(summaries_);
    TETHYS_RETURN_IF_ERROR(FitExchangeCosts(runs_, calibration_));
    return CheckDisturbance(DisturbanceOf(calibration_), request_.most_others_cpu, "nothing is calibrated");
  }

  const Flags& flags_;
  const CalibrationRequest& request_;
  proto::Calibration calibration_;
  // True if other programs disturbed every measurement of the computers.
  bool disturbed_all_the_time_ = false;
  std::vector<AnchorRun> runs_;
  std::vector<proto::RunSummary> summaries_;  // One summary per run.
};

}  // namespace

absl::StatusOr<proto::Calibration> MeasureCalibration(const Flags& flags, const CalibrationRequest& request) {
  return CalibrationRun(flags, request).Run();
}

FlagSpec MaxOthersCpuFlag(const std::string& use) {
  return {.name = "max_others_cpu",
          .value = "PERCENT",
          .help = absl::StrCat(
              use,
              " if other programs used more than this percentage of a computer's CPU during the calibration "
              "of the machines and also during its repetition. Default 50; 100 accepts any use.")};
}

}  // namespace tethys
