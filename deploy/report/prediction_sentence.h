// The predictions from before the runs of a report, beside the measurements. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_PREDICTION_SENTENCE_H_
#define TETHYS_DEPLOY_REPORT_PREDICTION_SENTENCE_H_

#include <string>

#include "proto/report.pb.h"

namespace tethys {

// One sentence with the samples a second of each variant that has a prediction; empty if none has. Of more
// than eight it takes the eight that were predicted worst.
std::string PredictionSentence(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_PREDICTION_SENTENCE_H_
