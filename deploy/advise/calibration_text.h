// A calibration as tables for a terminal. Pure; any thread.
#ifndef TETHYS_DEPLOY_ADVISE_CALIBRATION_TEXT_H_
#define TETHYS_DEPLOY_ADVISE_CALIBRATION_TEXT_H_

#include <string>

#include "proto/calibration.pb.h"

namespace tethys {

// Computers, the slowest link, and the brief runs beside the costs fitted to them; a warning if other
// programs used the CPU during the calibration.
std::string CalibrationText(const proto::Calibration& calibration);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_ADVISE_CALIBRATION_TEXT_H_
