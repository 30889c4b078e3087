// Calibrations on disk: proto::Calibration in protobuf's JSON mapping. `tethys calibrate` writes
// them, and every command that predicts reads them. Blocking; any thread.
#ifndef TETHYS_DEPLOY_PREDICT_CALIBRATION_FILE_H_
#define TETHYS_DEPLOY_PREDICT_CALIBRATION_FILE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "deploy/predict/machines.h"
#include "proto/calibration.pb.h"
#include "proto/plan.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The key of a calibration, which is valid for one build, one model, links with or without TLS, and a set of
// hosts.
struct CalibrationKey {
  std::string build_id;
  uint64_t model_signature = 0;
  bool tls = false;
  // All hosts of the host file, in any order; { kThisMachine } without a host file.
  std::vector<std::string> hosts;
};
CalibrationKey CalibrationKeyOf(const proto::JobPlan& plan, const JobMachines& machines,
                                const std::string& build_id);

// HOME/.cache/tethys/calibration/KEY.json; KEY is a hash of all fields of `key`.
std::string CalibrationPath(const std::string& home, const CalibrationKey& key);

// Makes the folders that are missing, and replaces the file atomically: a reader never finds half a file.
absl::Status WriteCalibration(const std::string& path, const proto::Calibration& calibration);

// NotFound: there is no such file. DataLoss: the file is incomplete or is no calibration. OutOfRange: a value
// is impossible (negative, above 1e18, or no number). All errors name the path and the remedy.
absl::StatusOr<proto::Calibration> ReadCalibration(const std::string& path);

// FailedPrecondition: the calibration was measured with another build or another model, or with TLS for a job
// without TLS, or without TLS for a job with TLS. `path` is for the error.
absl::Status CheckCalibration(const proto::Calibration& calibration, const CalibrationKey& key,
                              const std::string& path);

// The age of something made at `made`, such as "3 minutes ago". Both times are in seconds since 1970.
std::string AgeText(double made, double now);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PREDICT_CALIBRATION_FILE_H_
