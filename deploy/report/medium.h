// The medium through which a step's gradients and parameters are exchanged, as named in plans, tables and
// reports. Bytes through shared memory are counted like bytes through sockets, but use no network. Pure; any
// thread.
#ifndef TETHYS_DEPLOY_REPORT_MEDIUM_H_
#define TETHYS_DEPLOY_REPORT_MEDIUM_H_

#include <string>

#include "proto/summary.pb.h"

namespace tethys {

inline constexpr char kThroughMemory[] = "memory";
inline constexpr char kThroughTcp[] = "TCP";
inline constexpr char kThroughNccl[] = "NCCL";
inline constexpr char kThroughBoth[] = "TCP, memory";  // TCP among hosts, memory inside each.

// The explanation of "memory", for a line below a table.
inline constexpr char kMemoryNote[] =
    "Through memory: the bytes are in memory that the processes of one host share, and cross no network.";

// The medium of a finished run, one of kThrough...; empty if nothing was exchanged.
std::string MediumOf(const proto::RunSummary& summary);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_MEDIUM_H_
