// Measures a calibration: the computers, the links, and the cost of exchanging gradients. The cost is
// measured by brief runs of the real programs. Called by `tethys calibrate` and, if no usable calibration is
// stored, by `tethys advise`. Blocking; call it on the main thread.
#ifndef TETHYS_DEPLOY_ADVISE_CALIBRATION_RUN_H_
#define TETHYS_DEPLOY_ADVISE_CALIBRATION_RUN_H_

#include <string>

#include "deploy/advise/shaped_job.h"
#include "deploy/flags/flags.h"
#include "deploy/predict/disturbance.h"
#include "proto/calibration.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct CalibrationRequest {
  BaseJob base;
  double seconds = 40;  // The approximate time of a calibration; a job with long steps takes longer.
  // The largest share of a computer's CPU that other programs may use during the calibration (disturbance.h).
  double most_others_cpu = kMostOthersCpu;
};

// Makes a brief run of each shape that the job and the host file allow. For any other shape, prints a line on
// standard output. Fails if the first shape is not allowed, a machine cannot be measured (Unavailable,
// FailedPrecondition), or the first brief run fails. Also FailedPrecondition: other programs used more of the
// CPU than `most_others_cpu`, even while the machines were measured again.
absl::StatusOr<proto::Calibration> MeasureCalibration(const Flags& flags, const CalibrationRequest& request);

// The flag --max_others_cpu of the commands that calibrate. `use` is the first part of the help text and says
// what the command does if other programs used too much CPU. The rest of the help text begins with "if".
FlagSpec MaxOthersCpuFlag(const std::string& use);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_CALIBRATION_RUN_H_
