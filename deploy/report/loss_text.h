// Texts on the workers that a run lost and continued without. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_LOSS_TEXT_H_
#define TETHYS_DEPLOY_REPORT_LOSS_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/summary.pb.h"

namespace tethys {

// The time in seconds for which training stood still while workers formed new groups
// (RunSummary.group_change).
double StoodStill(const proto::RunSummary& summary);

// "over 3 attempts, which repeated 175 steps; the attempts before the last outlived 2 lost workers"; empty if
// the run had one attempt.
std::string AttemptsText(const proto::RunSummary& summary);

// "2 lost workers and 1 lost chief"; empty if no process was lost while the attempt went on.
std::string OutlivedText(const proto::Attempt& attempt);

// "2 workers were lost".
std::string LostText(int64_t workers);

// "2 workers were lost; training stood still for 0.08 s in all, and 3 steps were repeated; the chief was lost
// and replaced"; empty if the last attempt of the run lost neither a worker nor its chief, and its workers
// formed no new group.
std::string LossText(const proto::RunSummary& summary);

// LossText and, if the run had several attempts, AttemptsText: "trained over 2 attempts, which repeated 14
// steps"; empty if the run was not disturbed.
std::string DisturbanceText(const proto::RunSummary& summary);

// One line per lost worker, per new group of workers and per lost chief, in order of time:
//
//   after 12.3 s worker 1 on slave2 was lost: its session ended
//   after 12.4 s 2 workers went on from step 120 (lost worker 1 on slave2: its session ended), after training
//   had stood still for 40 ms
std::vector<std::string> LossLines(const proto::RunSummary& summary);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_LOSS_TEXT_H_
