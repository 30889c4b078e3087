#include <cstdio>
#include <utility>

#include "deploy/command/verbs.h"
#include "deploy/describe/job_description.h"
#include "deploy/describe/layer_list.h"
#include "deploy/describe/prediction_text.h"
#include "deploy/flags/data_secrets.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/predict/step_model.h"
#include "deploy/predict/what_if.h"
#include "deploy/run/initial_values.h"
#include "deploy/run/job_places.h"
#include "deploy/run/job_prediction.h"
#include "runtime/job/job_file.h"
#include "workers/plan_job.h"

namespace tethys {
namespace {

// The predicted times of the job. Without a calibration, the text has only what follows from the plan.
absl::StatusOr<std::string> PredictionReport(const Flags& flags, const proto::JobPlan& plan,
                                             const JobMachines& machines) {
  const std::string file = flags.Get("calibration");
  TETHYS_ASSIGN_OR_RETURN(const bool tls, WantsTls(flags));
  const absl::StatusOr<JobPrediction> found = PredictJob(plan, machines, tls, file);
  if (found.ok()) return PredictionText(found->prediction, plan.job(), found->source);
  if (!file.empty()) return found.status();
  TETHYS_ASSIGN_OR_RETURN(const proto::Prediction known, PredictWithoutCalibration(plan, machines));
  const std::string why =
      absl::IsNotFound(found.status())
          ? "times are not known: no calibration is stored for this build, model and machines; run tethys "
            "calibrate"
          : absl::StrCat("times are not known: ", found.status().message());
  return PredictionText(known, plan.job(), why);
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
        "--what_if computes from a calibration of real machines, and no calibration is stored for this "
        "build, model and machines: run tethys calibrate first");
  }
  TETHYS_RETURN_IF_ERROR(calibration.status());
  return Suppose(what_if, hosts, *calibration);
}

absl::StatusOr<std::string> SupposedReport(const Flags& flags, proto::JobPlan plan) {
  TETHYS_ASSIGN_OR_RETURN(const Supposition supposed, SupposeMachines(flags, plan));
  if (supposed.price_here > 0) plan.mutable_job()->clear_price_per_hour();
  std::string report;
  JobMachines machines = MachinesHere(plan);
  if (supposed.hosts.empty()) {
    machines.price_per_hour = supposed.price_here;
    TETHYS_ASSIGN_OR_RETURN(report, PlanReport(plan, ProcessesHere(plan)));
  } else {
    TETHYS_ASSIGN_OR_RETURN(const ClusterPlan cluster, PlanCluster(supposed.hosts, "--what_if", plan.job()));
    plan.mutable_worker_device()->Add(cluster.worker_devices.begin(), cluster.worker_devices.end());
    machines = MachinesOf(cluster);
    TETHYS_ASSIGN_OR_RETURN(
        report, PlanReport(plan, ClusterTable(cluster) + IdleHostsText(cluster), cluster.roles.workers));
  }
  TETHYS_ASSIGN_OR_RETURN(proto::Prediction prediction, Predict(plan, machines, supposed.calibration));
  MarkSupposed(supposed, prediction);
  return absl::StrCat("Supposed: ", supposed.text, "\n\n", report, "\n",
                      PredictionText(prediction, plan.job(), SourceText(supposed.calibration)),
                      VariablesAtTheEnd(flags, plan));
}

absl::StatusOr<std::string> Report(const Flags& flags) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(flags.arguments()[0], flags.GetAll("set")));
  absl::StatusOr<proto::JobPlan> built = PlanJob(job);
  if (built.ok()) {
    if (absl::Status status = CheckInitialValues(*built); !status.ok()) built = status;
  }
  if (!built.ok()) return WithPlace(built.status(), flags.arguments()[0], flags.GetAll("set"));
  proto::JobPlan plan = *std::move(built);
  if (flags.Has("layers")) return LayerList(plan);
  if (flags.Has("what_if")) return SupposedReport(flags, std::move(plan));
  if (!flags.Has("hostfile")) {
    TETHYS_ASSIGN_OR_RETURN(const std::string report, PlanReport(plan, ProcessesHere(plan), {}, CoresHere()));
    TETHYS_ASSIGN_OR_RETURN(const std::string predicted, PredictionReport(flags, plan, MachinesHere(plan)));
    return absl::StrCat(report, "\n", predicted, VariablesAtTheEnd(flags, plan));
  }
  TETHYS_ASSIGN_OR_RETURN(const ClusterPlan cluster, PlanCluster(flags.Get("hostfile"), plan.job()));
  plan.mutable_worker_device()->Add(cluster.worker_devices.begin(), cluster.worker_devices.end());
  TETHYS_ASSIGN_OR_RETURN(
      const std::string report,
      PlanReport(plan, ClusterTable(cluster) + IdleHostsText(cluster), cluster.roles.workers));
  TETHYS_ASSIGN_OR_RETURN(const std::string predicted, PredictionReport(flags, plan, MachinesOf(cluster)));
  return absl::StrCat(report, "\n", predicted, VariablesAtTheEnd(flags, plan));
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
       .summary = "Says what a job would be: processes, placement, memory, traffic, times. Starts nothing.",
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
                    "--set=strategy.parameter_server.servers=3"}},
      Plan};
}

}  // namespace tethys
