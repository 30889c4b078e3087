// The answer of a comparison in words, for a reader who reads nothing else: which variant to train with, and
// how certain this is. FindingsOf (findings.h) decides the answer, reason.h gives the reason, and verdict.h
// has all sentences. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_HEADLINE_H_
#define TETHYS_DEPLOY_REPORT_HEADLINE_H_

#include <string>

#include "deploy/report/findings.h"
#include "proto/report.pb.h"

namespace tethys {

struct Headline {
  std::string answer;  // One sentence: the variant to train with, or why no variant is recommended.
  // Sentences: the intervals of the answer's figures, the number of runs, and what disturbed the runs.
  std::string how_sure;
};

// `findings` must be the findings of `report`, and `report` must have at least two successful variants.
Headline HeadlineOf(const proto::Report& report, const Findings& findings);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_HEADLINE_H_
