// The medium through which a step's gradients and parameters travel, in the words that plans, tables and
// reports share. Bytes through memory and bytes through sockets are counted alike, but are not alike. Pure;
// any thread.
#ifndef TETHYS_DEPLOY_REPORT_MEDIUM_H_
#define TETHYS_DEPLOY_REPORT_MEDIUM_H_

#include <string>

#include "proto/summary.pb.h"

namespace tethys {

inline constexpr char kThroughMemory[] = "memory";
inline constexpr char kThroughTcp[] = "TCP";
inline constexpr char kThroughNccl[] = "NCCL";
inline constexpr char kThroughBoth[] = "TCP, memory";  // TCP among hosts, memory inside each.

// Explains "memory", for a line below a table that has it.
inline constexpr char kMemoryNote[] =
    "Through memory: shared by the processes of one host, 0 bytes of it on a network.";

// One of the above, of a run that was trained; empty: nothing is exchanged.
std::string MediumOf(const proto::RunSummary& summary);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_MEDIUM_H_
