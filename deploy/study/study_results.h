// The files of a study: reads the results of its runs from the directory where the study ran, and writes
// study.csv, study.md, study.tex and study.html there. Rendering is pure; reading and writing block.
#ifndef TETHYS_DEPLOY_STUDY_STUDY_RESULTS_H_
#define TETHYS_DEPLOY_STUDY_STUDY_RESULTS_H_

#include <string>
#include <vector>

#include "deploy/study/study_analysis.h"
#include "deploy/study/study_file.h"
#include "proto/study.pb.h"
#include "runtime/base/status.h"

namespace tethys {

// All runs that runs.csv lists. A run whose files cannot be read counts as failed. NotFound: there is no
// runs.csv. FailedPrecondition: a run does not belong to a combination of this study.
absl::StatusOr<std::vector<StudyRun>> ReadStudyRuns(const LoadedStudy& study, const std::string& directory);

// A line per run: factors, block, order, whether it counts, and every measure.
std::string StudyCsv(const LoadedStudy& study, absl::Span<const StudyRun> runs);
std::string StudyMarkdown(const proto::StudyReport& report);
// A table of the combinations in LaTeX, for the package booktabs; published values stand beside the measured
// values.
std::string StudyLatex(const proto::StudyReport& report);
std::string StudyHtml(const proto::StudyReport& report);

absl::Status WriteStudy(const LoadedStudy& study, absl::Span<const StudyRun> runs,
                        const proto::StudyReport& report, const std::string& directory);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_STUDY_STUDY_RESULTS_H_
