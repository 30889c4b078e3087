#include "deploy/command/job_prediction.h"

#include <chrono>

#include "deploy/hosts/cluster_plan.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/predict/step_model.h"
#include "runtime/base/build_id.h"
#include "runtime/base/home_folder.h"

namespace tethys {

namespace {

CalibrationKey KeyOf(const proto::JobPlan& plan, const JobMachines& machines, bool tls) {
  CalibrationKey key = CalibrationKeyOf(plan, machines, BuildId());
  key.tls = tls;
  return key;
}

}  // namespace

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
  TETHYS_ASSIGN_OR_RETURN(const proto::Calibration calibration, FindCalibration(plan, machines, tls, file));
  absl::StatusOr<proto::Prediction> prediction = Predict(plan, machines, calibration);
  if (!prediction.ok()) return Annotate(prediction.status(), file.empty() ? "the kept calibration" : file);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return JobPrediction{*std::move(prediction),
                       absl::StrCat("calibrated ", AgeText(calibration.made(), now), "; 90 % intervals")};
}

absl::optional<proto::Prediction> PredictionOfRun(const proto::JobPlan& plan, const std::string& host_file,
                                                  bool tls) {
  JobMachines machines = MachinesHere(plan);
  if (!host_file.empty()) {
    const absl::StatusOr<ClusterPlan> cluster = PlanCluster(host_file, plan.job());
    if (!cluster.ok()) return absl::nullopt;
    machines = MachinesOf(*cluster);
  }
  absl::StatusOr<JobPrediction> found = PredictJob(plan, machines, tls, "");
  if (!found.ok()) return absl::nullopt;
  return std::move(found->prediction);
}

}  // namespace tethys
