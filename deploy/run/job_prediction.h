// Finds the calibration of a job's machines and predicts the job by it. Called by the verbs that plan or
// train. Blocking.
#ifndef TETHYS_DEPLOY_RUN_JOB_PREDICTION_H_
#define TETHYS_DEPLOY_RUN_JOB_PREDICTION_H_

#include <string>

#include "absl/types/optional.h"
#include "deploy/flags/flags.h"
#include "deploy/predict/machines.h"
#include "proto/calibration.pb.h"
#include "proto/live.pb.h"
#include "proto/plan.pb.h"
#include "proto/prediction.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// The flag --what_if, by which a user describes machines that do not exist. `use` is the beginning of the
// flag's help: what the command does for such machines, for example "Predicts".
FlagSpec WhatIfFlag(const std::string& use);

struct JobPrediction {
  proto::Prediction prediction;
  proto::Calibration calibration;
  std::string source;  // The text that SourceText returns for `calibration`.
};

// The path of the stored calibration of this build, of the plan's model and of these machines. NotFound: this
// user has no home folder.
absl::StatusOr<std::string> KeptCalibrationPath(const proto::JobPlan& plan, const JobMachines& machines,
                                                bool tls);

// Reads the calibration in `file` or, if `file` is empty, the stored calibration of this build, model and
// machines. NotFound: the file does not exist. Otherwise fails as ReadCalibration and CheckCalibration do.
absl::StatusOr<proto::Calibration> FindCalibration(const proto::JobPlan& plan, const JobMachines& machines,
                                                   bool tls, const std::string& file);

// Text about how old a calibration is and what disturbed it: "calibrated 3 minutes ago, while other programs
// used 4 % of the CPU".
std::string CalibratedText(const proto::Calibration& calibration);
// CalibratedText followed by "; 90 % intervals", for PredictionText.
std::string SourceText(const proto::Calibration& calibration);

// Predicts the job by the calibration in `file` or, if `file` is empty, by the user's stored calibration for
// these machines, this build and this model. NotFound: there is no such calibration. Otherwise fails as
// ReadCalibration and CheckCalibration (deploy/predict/calibration_file.h) and Predict
// (deploy/predict/step_model.h) do.
absl::StatusOr<JobPrediction> PredictJob(const proto::JobPlan& plan, const JobMachines& machines, bool tls,
                                         const std::string& file);

// The expectation of a run: its prediction, which is stored beside the run's measurements, and the rates of
// its hosts' links. nullopt: there is no usable calibration; a run does not need one. `host_file`: empty if
// the job runs on this machine.
absl::optional<proto::Expectation> ExpectationOfRun(const proto::JobPlan& plan, const std::string& host_file,
                                                    bool tls);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_RUN_JOB_PREDICTION_H_
