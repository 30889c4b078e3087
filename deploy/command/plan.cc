#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "deploy/advise/advice_text.h"
#include "deploy/command/verbs.h"
#include "deploy/describe/job_description.h"
#include "deploy/describe/layer_list.h"
#include "deploy/describe/prediction_text.h"
#include "deploy/experiment/strategy_shapes.h"
#include "deploy/flags/data_secrets.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/predict/step_model.h"
#include "deploy/predict/what_if.h"
#include "deploy/process/remote_shell.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_prediction.h"
#include "deploy/text.h"
#include "runtime/job/job_file.h"
#include "runtime/shape/job_shape.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

// Says that no calibration is stored, and names the command that would store one.
std::string NoCalibration(const Flags& flags) {
  std::string command = absl::StrCat("tethys calibrate ", ShellWord(flags.arguments()[0]));
  for (const char* name : {"set", "hostfile", "tls"}) {
    for (const std::string& value : flags.GetAll(name)) {
      absl::StrAppend(&command, " ", ShellWord(absl::StrCat("--", name, "=", value)));
    }
  }
  return absl::StrCat("no calibration is stored for this build, model and machines: run ", command);
}

// The table of variables, which is printed last because it is the longest; empty with --brief.
std::string VariablesAtTheEnd(const Flags& flags, const proto::JobPlan& plan) {
  return flags.Has("brief") ? "" : absl::StrCat("\n", VariablesReport(plan));
}

// The machines that --what_if describes, derived from the calibration of the real machines.
absl::StatusOr<Supposition> SupposeMachines(const Flags& flags, const proto::JobPlan& plan) {
  TETHYS_ASSIGN_OR_RETURN(const WhatIf what_if, ParseWhatIf(flags.GetAll("what_if")));
  std::vector<HostEntry> hosts;
  if (flags.Has("hostfile")) {
    TETHYS_ASSIGN_OR_RETURN(hosts, ReadHostFile(flags.Get("hostfile")));
  }
  const JobMachines there = hosts.empty() ? MachinesHere(plan) : MachinesOf(hosts);
  const std::string file = flags.Get("calibration");
  TETHYS_ASSIGN_OR_RETURN(const bool tls, WantsTls(flags));
  const absl::StatusOr<proto::Calibration> calibration = FindCalibration(plan, there, tls, file);
  if (absl::IsNotFound(calibration.status()) && file.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--what_if computes from a calibration of real machines, and ", NoCalibration(flags)));
  }
  TETHYS_RETURN_IF_ERROR(calibration.status());
  return Suppose(what_if, hosts, *calibration);
}

// The plan of a job and the machines that run it: the machines of --what_if, the hosts of --hostfile, or this
// machine. If hosts run the job, `plan` contains the devices of their workers. If --what_if supposes a price,
// `plan` does not contain the job's price.
struct PlacedPlan {
  proto::JobPlan plan;
  JobMachines machines;
  absl::optional<ClusterPlan> cluster;  // Absent: all processes run on this machine.
  absl::optional<Supposition> supposed;
};
absl::StatusOr<PlacedPlan> PlacePlan(const Flags& flags, proto::JobPlan plan) {
  PlacedPlan placed{.plan = std::move(plan), .machines = {}, .cluster = {}, .supposed = {}};
  placed.machines = MachinesHere(placed.plan);
  if (flags.Has("what_if")) {
    TETHYS_ASSIGN_OR_RETURN(placed.supposed, SupposeMachines(flags, placed.plan));
    if (placed.supposed->price_here > 0) placed.plan.mutable_job()->clear_price_per_hour();
    placed.machines.price_per_hour = placed.supposed->price_here;
    if (placed.supposed->hosts.empty()) return placed;
    TETHYS_ASSIGN_OR_RETURN(placed.cluster,
                            PlanCluster(placed.supposed->hosts, "--what_if", placed.plan.job()));
  } else if (flags.Has("hostfile")) {
    TETHYS_ASSIGN_OR_RETURN(placed.cluster, PlanCluster(flags.Get("hostfile"), placed.plan.job()));
  } else {
    return placed;
  }
  const auto& devices = placed.cluster->worker_devices;
  placed.plan.mutable_worker_device()->Add(devices.begin(), devices.end());
  placed.machines = MachinesOf(*placed.cluster);
  return placed;
}

absl::StatusOr<JobPrediction> PredictPlaced(const Flags& flags, const PlacedPlan& placed) {
  if (!placed.supposed.has_value()) {
    TETHYS_ASSIGN_OR_RETURN(const bool tls, WantsTls(flags));
    return PredictJob(placed.plan, placed.machines, tls, flags.Get("calibration"));
  }
  const proto::Calibration& calibration = placed.supposed->calibration;
  TETHYS_ASSIGN_OR_RETURN(proto::Prediction prediction, Predict(placed.plan, placed.machines, calibration));
  MarkSupposed(*placed.supposed, prediction);
  return JobPrediction{std::move(prediction), calibration, SourceText(calibration)};
}

// The predicted times of the job. Without a calibration, the text has only what follows from the plan.
absl::StatusOr<std::string> PredictionReport(const Flags& flags, const PlacedPlan& placed) {
  const proto::Job& job = placed.plan.job();
  const absl::StatusOr<JobPrediction> found = PredictPlaced(flags, placed);
  if (found.ok()) return PredictionText(found->prediction, job, found->source);
  if (flags.Has("calibration") || placed.supposed.has_value()) return found.status();
  TETHYS_ASSIGN_OR_RETURN(const proto::Prediction known,
                          PredictWithoutCalibration(placed.plan, placed.machines));
  return PredictionText(known, job,
                        absl::StrCat("times are not known: ", absl::IsNotFound(found.status())
                                                                  ? NoCalibration(flags)
                                                                  : std::string(found.status().message())));
}

absl::StatusOr<proto::JobPlan> LoadPlan(const std::string& file, const std::vector<std::string>& set) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(file, set));
  absl::StatusOr<proto::JobPlan> built = PlanJob(job);
  if (built.ok()) {
    if (absl::Status status = CheckInitialValues(*built); !status.ok()) built = status;
  }
  return built.ok() ? std::move(built) : WithPlace(built.status(), file, set);
}

// MachinesText for a plan on several machines: compares the job with the same job run by one worker. Empty if
// either job cannot be predicted.
std::string MachinesRemark(const Flags& flags, const PlacedPlan& placed) {
  std::vector<Candidate> candidates;
  const auto add = [&](const PlacedPlan& one) {
    absl::StatusOr<JobPrediction> found = PredictPlaced(flags, one);
    if (!found.ok()) return;
    candidates.push_back({.shape = ShapeOf(one.plan.job()), .prediction = std::move(found->prediction)});
    candidates.back().machines = MachinesInUse(one.machines);
  };
  if (MachinesInUse(placed.machines) < 2) return "";
  std::vector<std::string> set = flags.GetAll("set");
  for (std::string& change : ShapeOverrides({StrategyFamily::kLocal, 1, 0})) set.push_back(std::move(change));
  set.push_back(absl::StrCat("global_batch_size=", placed.plan.global_batch()));
  absl::StatusOr<proto::JobPlan> alone = LoadPlan(flags.arguments()[0], set);
  if (!alone.ok()) return "";
  const absl::StatusOr<PlacedPlan> alone_placed = PlacePlan(flags, *std::move(alone));
  if (!alone_placed.ok()) return "";
  add(placed);
  add(*alone_placed);
  return Wrap(MachinesText(candidates), "", kSummaryWidth);
}

// A row of predictions for each number of --workers.
absl::StatusOr<std::string> WorkersReport(const Flags& flags) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<int> numbers, ParseNumbers("--workers", flags.Get("workers")));
  std::vector<WorkersPrediction> predictions;
  std::string text, source, alone;
  for (const int workers : numbers) {
    std::vector<std::string> set = flags.GetAll("set");
    set.push_back(absl::StrCat("workers=", workers));
    const std::string what = absl::StrCat("--workers: ", PluralText(workers, "worker"));
    absl::StatusOr<proto::JobPlan> plan = LoadPlan(flags.arguments()[0], set);
    if (!plan.ok()) return Annotate(plan.status(), what);
    const absl::StatusOr<PlacedPlan> placed = PlacePlan(flags, *std::move(plan));
    if (!placed.ok()) return Annotate(placed.status(), what);
    absl::StatusOr<JobPrediction> found = PredictPlaced(flags, *placed);
    if (absl::IsNotFound(found.status()) && !flags.Has("calibration")) {
      return absl::FailedPreconditionError(
          absl::StrCat("--workers compares predictions: ", NoCalibration(flags)));
    }
    if (!found.ok()) return Annotate(found.status(), what);
    if (placed->supposed.has_value()) text = absl::StrCat("Supposed: ", placed->supposed->text, "\n\n");
    source = found->source;
    predictions.push_back({.workers = workers, .prediction = std::move(found->prediction)});
    if (!placed->cluster.has_value()) continue;
    predictions.back().machines = static_cast<int>(placed->cluster->UsedHosts().size());
    if (alone.empty()) alone = Wrap(ChiefAloneText(*placed->cluster), "", kSummaryWidth);
  }
  return absl::StrCat(text, PredictionTable(predictions, source), alone);
}

absl::StatusOr<std::string> Report(const Flags& flags) {
  // A wrong flag is an error even if no prediction uses the flag.
  TETHYS_RETURN_IF_ERROR(WantsTls(flags).status());
  if (flags.Has("workers")) return WorkersReport(flags);
  TETHYS_ASSIGN_OR_RETURN(proto::JobPlan plan, LoadPlan(flags.arguments()[0], flags.GetAll("set")));
  if (flags.Has("layers")) return LayerList(plan);
  TETHYS_ASSIGN_OR_RETURN(const PlacedPlan placed, PlacePlan(flags, std::move(plan)));
  std::string report, predicted;
  if (placed.cluster.has_value()) {
    const ClusterPlan& cluster = *placed.cluster;
    TETHYS_ASSIGN_OR_RETURN(report, PlanReport(placed.plan, ClusterTable(cluster) + IdleHostsText(cluster),
                                               cluster.roles.workers));
  } else {
    const int cores = placed.supposed.has_value() ? 0 : CoresHere();
    TETHYS_ASSIGN_OR_RETURN(report, PlanReport(placed.plan, ProcessesHere(placed.plan), {}, cores));
  }
  TETHYS_ASSIGN_OR_RETURN(predicted, PredictionReport(flags, placed));
  const std::string supposed =
      placed.supposed.has_value() ? absl::StrCat("Supposed: ", placed.supposed->text, "\n\n") : "";
  return absl::StrCat(supposed, report, "\n", predicted, MachinesRemark(flags, placed),
                      VariablesAtTheEnd(flags, placed.plan));
}

int Plan(const Flags& flags) {
  const absl::StatusOr<std::string> report = Report(flags);
  if (!report.ok()) return Fail("plan", report.status(), kExitBadRequest);
  std::fputs(report->c_str(), stdout);
  return kExitSuccess;
}

}  // namespace

Command PlanCommand() {
  return {
      {.verb = "plan",
       .summary = "Shows the processes, placement, memory, traffic and times of a job. Starts nothing.",
       .description =
           "Prints the processes of a job, which ranges of each variable every server would keep, how "
           "evenly the servers would be loaded, the memory that each process would need, the bytes that a "
           "step would send and, with a host file, which machine would run which process. With a "
           "calibration of these machines, plan also predicts the cost and the times of a step, an epoch "
           "and the run, each with a 90 % interval, and says which resources take the time of a step. Plan "
           "starts nothing and reads only the headers of the data.",
       .argument = "JOB",
       .flags =
           {SetFlag(),
            {.name = "layers",
             .help = "Prints only the model, as text of a job file to copy: each layer with the shape of "
                     "its output, its parameters and its multiply-adds."},
            {.name = "workers",
             .value = "N,N,...",
             .help =
                 "Prints only a table of predictions, with a row for each of these numbers of workers, such "
                 "as 1,2,4 or 1-8."},
            {.name = "brief", .help = "Leaves out the table of variables."},
            {.name = "hostfile",
             .value = "FILE",
             .help = "The machines, one per line: also shows which process would run on which machine, and "
                     "the price per hour.",
             .is_input = true},
            {.name = "calibration",
             .value = "FILE",
             .help = "A calibration that `tethys calibrate` wrote, from which times and cost are predicted. "
                     "Default: the calibration that is stored for this build, model and machines, if there "
                     "is one.",
             .is_input = true},
            WhatIfFlag("Predicts"),
            TlsFlag(),
            SecretsFlag()},
       .examples = {"tethys plan examples/fashion_mnist_ps_sync.textproto "
                    "--set=strategy.parameter_server.servers=3",
                    "tethys plan examples/fashion_mnist_mirrored.textproto --workers=1,2,4"}},
      Plan};
}

}  // namespace tethys
