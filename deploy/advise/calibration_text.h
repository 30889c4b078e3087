// A calibration as tables for a terminal. Pure; any thread.
#ifndef TETHYS_DEPLOY_ADVISE_CALIBRATION_TEXT_H_
#define TETHYS_DEPLOY_ADVISE_CALIBRATION_TEXT_H_

#include <string>

#include "proto/calibration.pb.h"

namespace tethys {

// Shows the computers, the slowest link, and the brief runs beside the costs that were fitted to them; warns
// if other programs used the CPU during the calibration.
std::string CalibrationText(const proto::Calibration& calibration);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_CALIBRATION_TEXT_H_
