// The answer of a comparison in one sentence that a reader can repeat: which variant to train with, how
// surely, and why. verdict.h puts it first. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_HEADLINE_H_
#define TETHYS_DEPLOY_REPORT_HEADLINE_H_

#include <string>

#include "deploy/report/ranking.h"

namespace tethys {

// `variants`: at least two, as BySpeed orders them. If one of them ran only once, nothing is recommended, and
// the sentence says what to do.
std::string Headline(const Ranking& variants);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_HEADLINE_H_
