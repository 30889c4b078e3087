// The analysis of a study's runs, for its page and tables. Pure; any thread.
#ifndef TETHYS_DEPLOY_STUDY_STUDY_ANALYSIS_H_
#define TETHYS_DEPLOY_STUDY_STUDY_ANALYSIS_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "deploy/report/run_means.h"
#include "deploy/study/study_file.h"
#include "deploy/study/tmi_study.h"
#include "proto/study.pb.h"

namespace tethys {

// A run of a study. `record.variant` is the index of its combination, `record.repeat` its block.
struct StudyRun {
  RunRecord record;
  int order = 0;  // Position in the order of execution, from 1; 0: not known.
  double start = 0;
  bool put_aside = false;
  absl::optional<double> others_cpu;
  absl::optional<TmiRun> tmi;
};

proto::StudyReport AnalyseStudy(const LoadedStudy& study, absl::Span<const StudyRun> runs,
                                const std::string& made);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_STUDY_ANALYSIS_H_
