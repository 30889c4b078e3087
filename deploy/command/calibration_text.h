// A calibration as tables for a terminal. Pure; any thread.
#ifndef TETHYS_DEPLOY_COMMAND_CALIBRATION_TEXT_H_
#define TETHYS_DEPLOY_COMMAND_CALIBRATION_TEXT_H_

#include <string>

#include "proto/calibration.pb.h"

namespace tethys {

// Computers, the slowest link, and brief runs beside what was fitted to them; a warning where other programs
// used the CPU meanwhile.
std::string CalibrationText(const proto::Calibration& calibration);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_COMMAND_CALIBRATION_TEXT_H_
