// What a comparison says, in sentences for somebody who was not there: which variant was fastest, by how much
// and how sure that is, parameter servers against mirrored workers, what to choose, which was accurate first,
// whether accuracy differs, what it cost, and what limits all that. One run of a variant ranks nothing. Pure;
// any thread.
#ifndef TETHYS_DEPLOY_REPORT_VERDICT_H_
#define TETHYS_DEPLOY_REPORT_VERDICT_H_

#include <string>
#include <vector>

#include "proto/report.pb.h"

namespace tethys {

// The two variants that the question is about: mirrored workers and parameter servers where both were run, as
// StrategyPairs pairs them; else the fastest and, as its rival, the fastest of another strategy, or where all
// have one strategy the second. The faster one first; null where there is none.
struct Contenders {
  const proto::ReportVariant* best = nullptr;
  const proto::ReportVariant* rival = nullptr;
};
Contenders ContendersOf(const proto::Report& report);

// Whether a model does hardly better than a guess that is right with probability `chance`, in (0, 1]: at most
// twice as often right, or a tenth of the way from there to always right, whichever is less.
bool IsAtChance(double accuracy, double chance);

// The most important first; at least one sentence. What may be noise is called so (report_value.h).
std::vector<std::string> Verdict(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_VERDICT_H_
