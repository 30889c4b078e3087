// What a comparison says, in sentences for somebody who was not there: which variant was fastest, by how much
// and how sure that is, which was accurate first, whether accuracy differs, what it cost. Pure; any thread.
#ifndef TETHYS_DEPLOY_VERDICT_H_
#define TETHYS_DEPLOY_VERDICT_H_

#include <string>
#include <vector>

#include "proto/report.pb.h"

namespace tethys {

// The variant that trained fastest, and the one it is held against: the fastest of another strategy, or where
// all have one strategy the second. Null where there is none.
struct Contenders {
  const proto::ReportVariant* best = nullptr;
  const proto::ReportVariant* rival = nullptr;
};
Contenders ContendersOf(const proto::Report& report);

// The most important first; at least one sentence. What may be noise is called so (report_value.h).
std::vector<std::string> Verdict(const proto::Report& report);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_VERDICT_H_
