// The workers that a run lost and outlived, in words. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_LOSS_TEXT_H_
#define TETHYS_DEPLOY_REPORT_LOSS_TEXT_H_

#include <string>
#include <vector>

#include "proto/summary.pb.h"

namespace tethys {

// The time in seconds for which training stood still while workers formed new groups
// (RunSummary.group_change).
double StoodStill(const proto::RunSummary& summary);

// "2 workers were lost; training stood still for 0.08 s in all, and 3 steps were made again"; empty if the
// last attempt of the run lost no worker and its workers formed no new group.
std::string LossText(const proto::RunSummary& summary);

// One line per lost worker and one per new group of workers, in order of time:
//
//   after 12.3 s worker 1 on slave2 was lost: its session ended
//   after 12.4 s 2 workers went on from step 120 (lost worker 1 on slave2: its session ended), after training
//   had stood still for 40 ms
std::vector<std::string> LossLines(const proto::RunSummary& summary);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_LOSS_TEXT_H_
