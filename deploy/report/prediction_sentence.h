// Compares the predictions that were made before the runs of a report with the measurements. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_REPORT_PREDICTION_SENTENCE_H_
#define TETHYS_DEPLOY_REPORT_PREDICTION_SENTENCE_H_

#include <string>

#include "proto/report.pb.h"

namespace tethys {

// One sentence with the samples per second of each variant that has a prediction; empty if no variant has a
// prediction. If more than eight variants have a prediction, the sentence covers only the eight with the
// largest errors.
std::string PredictionSentence(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_PREDICTION_SENTENCE_H_
