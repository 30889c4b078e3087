#include "deploy/command/calibration_run.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/calibrate/computer_meter.h"
#include "deploy/command/job_places.h"
#include "deploy/hosts/host_check.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/predict/exchange_fit.h"
#include "deploy/predict/step_model.h"
#include "deploy/process/scratch_directory.h"
#include "deploy/process/signal_source.h"
#include "deploy/text.h"
#include "runtime/base/build_id.h"
#include "runtime/base/clock.h"
#include "runtime/job/job.h"

namespace tethys {
namespace {

constexpr double kComputerShare = 0.2;  // The share of the time in which computers are measured.
constexpr double kRunShare = 0.5;  // The share for the steps of brief runs; the rest is their start and end.
constexpr int kLinkRounds = 3;     // Each host is measured with as many others.
// If hosts share processors, links are measured one after the other, so each host with one other.
constexpr int kSharedRounds = 1;

// The hosts that some shape uses, once each.
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

absl::Status AddLinks(const BaseJob& base, const Flags& flags, const std::string& scratch,
                      proto::Calibration& calibration) {
  bool shared = false;
  for (const proto::ComputerCalibration& computer : calibration.computer()) {
    shared = shared || computer.host_size() > 1;
  }
  const ClusterCheck check =
      CheckCluster(base.hosts, {.ssh_config = flags.Get("ssh_config"), .scratch = scratch},
                   {.most = shared ? kSharedRounds : kLinkRounds, .one_at_once = shared});
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

// The base job in the shapes that it and its host file allow.
absl::StatusOr<std::vector<ShapedJob>> ShapesToRun(const BaseJob& base) {
  std::vector<ShapedJob> jobs;
  for (const JobShape& shape : AnchorShapes(base.slots, base.plan.global_batch())) {
    absl::StatusOr<ShapedJob> job = ShapeJob(base, shape);
    if (job.ok()) {
      jobs.push_back(*std::move(job));
    } else if (jobs.empty()) {
      return job.status();
    } else {
      PrintLine(absl::StrCat("left out: ", ShapeText(shape), ": ", job.status().message()));
    }
  }
  return jobs;
}

class CalibrationRun {
 public:
  CalibrationRun(const Flags& flags, const CalibrationRequest& request) : flags_(flags), request_(request) {}

  absl::StatusOr<proto::Calibration> Run() {
    signal(SIGPIPE, SIG_IGN);  // A write to a host that is gone then returns an error.
    TETHYS_ASSIGN_OR_RETURN(const std::vector<ShapedJob> jobs, ShapesToRun(request_.base));
    TETHYS_ASSIGN_OR_RETURN(const std::vector<Places> places, PlaceBriefly(flags_, jobs));
    // Released when the folder has been removed, so an interrupt leaves nothing behind.
    const InterruptsHeld held;
    TETHYS_ASSIGN_OR_RETURN(const ScratchDirectory scratch, ScratchDirectory::Create());
    calibration_.set_build_id(BuildId());
    calibration_.set_model_signature(request_.base.plan.model_signature());
    calibration_.set_made(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
    calibration_.set_tls(places[0].tls);
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
    PrintLine(absl::StrCat("measuring steps of ", PluralText(computers.batches.size(), "batch size"), " on ",
                           PluralText(computers.hosts.size(), "host")));
    TETHYS_ASSIGN_OR_RETURN(const std::vector<proto::ComputerCalibration> measured,
                            MeasureComputers(computers));
    calibration_.mutable_computer()->Add(measured.begin(), measured.end());
    if (base.hosts.size() < 2) return absl::OkStatus();
    PrintLine("measuring links");
    return AddLinks(base, flags_, scratch, calibration_);
  }

  absl::Status RunAll(const std::vector<ShapedJob>& jobs, const std::vector<Places>& places,
                      const std::string& scratch) {
    std::vector<AnchorRun> runs;
    std::vector<proto::RunSummary> summaries;
    const double seconds = kRunShare * request_.seconds / static_cast<double>(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      const ShapedJob& job = jobs[i];
      const absl::StatusOr<proto::Prediction> expected = Predict(job.plan, job.machines, calibration_);
      if (absl::IsUnimplemented(expected.status())) {
        calibration_.set_refusal(std::string(expected.status().message()));
        continue;
      }
      TETHYS_RETURN_IF_ERROR(expected.status());
      PrintLine(absl::StrCat("running ", ShapeText(job.shape)));
      TETHYS_ASSIGN_OR_RETURN(
          const BriefRun run,
          RunBriefly(job, places[i], StepsFor(seconds, expected->step().value()),
                     absl::StrCat(scratch, "/run-", i), flags_.GetAll("cuda_library_path")));
      runs.push_back({.plan = run.plan,
                      .machines = job.machines,
                      .step = run.times.step,
                      .mean_step = run.times.mean_step});
      summaries.push_back(run.summary);
    }
    *calibration_.mutable_overheads() = OverheadsOf(summaries);
    return FitExchangeCosts(runs, calibration_);
  }

  const Flags& flags_;
  const CalibrationRequest& request_;
  proto::Calibration calibration_;
};

}  // namespace

absl::StatusOr<proto::Calibration> MeasureCalibration(const Flags& flags, const CalibrationRequest& request) {
  return CalibrationRun(flags, request).Run();
}

}  // namespace tethys
