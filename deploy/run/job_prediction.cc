#include "deploy/run/job_prediction.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "deploy/hosts/cluster_plan.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/predict/disturbance.h"
#include "deploy/predict/step_model.h"
#include "runtime/base/build_id.h"
#include "runtime/base/home_folder.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

namespace {

CalibrationKey KeyOf(const proto::JobPlan& plan, const JobMachines& machines, bool tls) {
  CalibrationKey key = CalibrationKeyOf(plan, machines, BuildId());
  key.tls = tls;
  return key;
}

// Adds the rate of the host's fastest measured link to `expectation`. Does nothing if no link was measured.
void AddLink(const proto::Calibration& calibration, const std::string& host,
             proto::Expectation& expectation) {
  double rate = 0;
  for (const proto::LinkCalibration& link : calibration.link()) {
    if (link.from() != link.to() && (link.from() == host || link.to() == host)) {
      rate = std::max(rate, link.bytes_per_second());
    }
  }
  if (rate <= 0) return;
  proto::LinkRate& added = *expectation.add_link();
  added.set_host(host);
  added.set_bytes_per_second(rate);
}

}  // namespace

FlagSpec WhatIfFlag(const std::string& use) {
  return {.name = "what_if",
          .value = "NAME=VALUE,...",
          .help = absl::StrCat(
              use,
              " for machines that do not exist, from the calibration of machines that do: hosts=32, "
              "kind=NAME, slots=4, cores=8, speed=1.5, link=10gbit, delay=50us, price=0.25 (the price of one "
              "host per hour, in place of the job's price_per_hour, the price of all hosts together)."),
          .repeated = true};
}

absl::StatusOr<std::string> KeptCalibrationPath(const proto::JobPlan& plan, const JobMachines& machines,
                                                bool tls) {
  TETHYS_ASSIGN_OR_RETURN(const std::string home, HomeFolder());
  return CalibrationPath(home, KeyOf(plan, machines, tls));
}

absl::StatusOr<proto::Calibration> FindCalibration(const proto::JobPlan& plan, const JobMachines& machines,
                                                   bool tls, const std::string& file) {
  std::string path = file;
  if (path.empty()) {
    TETHYS_ASSIGN_OR_RETURN(path, KeptCalibrationPath(plan, machines, tls));
  }
  TETHYS_ASSIGN_OR_RETURN(proto::Calibration calibration, ReadCalibration(path));
  TETHYS_RETURN_IF_ERROR(CheckCalibration(calibration, KeyOf(plan, machines, tls), path));
  return calibration;
}

absl::StatusOr<JobPrediction> PredictJob(const proto::JobPlan& plan, const JobMachines& machines, bool tls,
                                         const std::string& file) {
  TETHYS_ASSIGN_OR_RETURN(proto::Calibration calibration, FindCalibration(plan, machines, tls, file));
  absl::StatusOr<proto::Prediction> prediction = Predict(plan, machines, calibration);
  if (!prediction.ok()) return Annotate(prediction.status(), file.empty() ? "the stored calibration" : file);
  std::string source = SourceText(calibration);
  return JobPrediction{*std::move(prediction), std::move(calibration), std::move(source)};
}

std::string CalibratedText(const proto::Calibration& calibration) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return absl::StrCat("calibrated ", AgeText(calibration.made(), now), ", while ",
                      DisturbanceText(DisturbanceOf(calibration)));
}

std::string SourceText(const proto::Calibration& calibration) {
  return absl::StrCat(CalibratedText(calibration), "; 90 % intervals");
}

absl::optional<proto::Expectation> ExpectationOfRun(const proto::JobPlan& plan, const std::string& host_file,
                                                    bool tls) {
  JobMachines machines = MachinesHere(plan);
  if (!host_file.empty()) {
    const absl::StatusOr<ClusterPlan> cluster = PlanCluster(host_file, plan.job());
    if (!cluster.ok()) return absl::nullopt;
    machines = MachinesOf(*cluster);
  }
  absl::StatusOr<JobPrediction> found = PredictJob(plan, machines, tls, "");
  if (!found.ok()) return absl::nullopt;
  const proto::Job& job = plan.job();
  proto::Expectation expectation;
  *expectation.mutable_prediction() = std::move(found->prediction);
  const ShapeTraits& traits = TraitsOf(job);
  const bool each_by_itself = traits.update == UpdateUnit::kPush;
  expectation.set_batch_per_worker(each_by_itself ? static_cast<double>(plan.batch_per_worker())
                                                  : static_cast<double>(plan.global_batch()) / job.workers());
  expectation.set_lock_step(!traits.leases());
  for (const std::string& host : machines.hosts) AddLink(found->calibration, host, expectation);
  return expectation;
}

}  // namespace tethys
