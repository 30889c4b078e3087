#include "deploy/command/job_prediction.h"

#include <chrono>

#include "deploy/hosts/cluster_plan.h"
#include "deploy/predict/calibration_file.h"
#include "deploy/predict/step_model.h"
#include "runtime/base/build_id.h"
#include "runtime/base/home_folder.h"

namespace tethys {

absl::StatusOr<JobPrediction> PredictJob(const proto::JobPlan& plan, const JobMachines& machines, bool tls,
                                         const std::string& file) {
  CalibrationKey key = CalibrationKeyOf(plan, machines, BuildId());
  key.tls = tls;
  std::string path = file;
  if (path.empty()) {
    TETHYS_ASSIGN_OR_RETURN(const std::string home, HomeFolder());
    path = CalibrationPath(home, key);
  }
  TETHYS_ASSIGN_OR_RETURN(const proto::Calibration calibration, ReadCalibration(path));
  TETHYS_RETURN_IF_ERROR(CheckCalibration(calibration, key, path));
  absl::StatusOr<proto::Prediction> prediction = Predict(plan, machines, calibration);
  if (!prediction.ok()) return Annotate(prediction.status(), path);
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
