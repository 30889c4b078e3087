// The CPU load of computers while a variant trained. Pure; any thread.
#ifndef TETHYS_DEPLOY_REPORT_CPU_USE_H_
#define TETHYS_DEPLOY_REPORT_CPU_USE_H_

#include <string>

#include "proto/report.pb.h"

namespace tethys {

inline constexpr double kFullCpu = 0.9;    // Mean share of all cores that counts as full.
inline constexpr double kOthersCpu = 0.1;  // Above this share of all cores, other programs are mentioned.

// Above this share, the headline mentions other programs where it says how certain the answer is.
inline constexpr double kLoudOthersCpu = 0.2;

// The share of the CPU that other programs took while a variant trained: the mean over the variant's runs,
// for the variant with the largest mean. 0: not known.
double MostOthersCpu(const proto::Report& report);

// The mean load of a computer during training, as shares of all its cores. Several machines of a job may be
// network namespaces or containers on one computer.
struct CpuUse {
  std::string host;
  int cores = 0;
  double busy = 0;    // The share used by all programs, including waiting processes that poll.
  double job = 0;     // The share used by the job's processes.
  int computers = 0;  // The number of the variant's computers whose load is known.
};

// Says why the times for computing and for the exchange do not show what limits two variants: a process that
// waits for a core counts as computing, or as waiting for the exchange. Empty if these times may be compared.
std::string ClockDoubt(const proto::ReportVariant& a, const proto::ReportVariant& b);

// The load of the busiest computer; `cores` is 0 if no load is known.
CpuUse BusiestCpu(const proto::ReportVariant& variant);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_REPORT_CPU_USE_H_
