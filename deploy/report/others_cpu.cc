#include "deploy/report/others_cpu.h"

#include <algorithm>
#include <map>
#include <string>

namespace tethys {
namespace {

struct Computer {
  double all_percent = -1;  // The CPU use of all programs, in percent of one core; negative: not sampled.
  double job_percent = 0;
  int cores = 0;
};

}  // namespace

absl::optional<double> OthersCpuOf(const proto::RunSummary& summary) {
  if (summary.has_others_cpu()) return summary.others_cpu();
  std::map<std::string, std::string> kernel_of_host;
  std::map<std::string, Computer> computers;
  for (const proto::ResourceSummary& use : summary.resources()) {
    if (use.host().empty() || !use.process().empty()) continue;
    const std::string& kernel = use.boot_id().empty() ? use.host() : use.boot_id();
    kernel_of_host[use.host()] = kernel;
    Computer& computer = computers[kernel];
    // Each host measures its whole computer. So the values of several hosts on one computer are not added.
    computer.all_percent = std::max(computer.all_percent, use.cpu_percent().mean());
    computer.cores = std::max(computer.cores, use.cores());
  }
  for (const proto::ResourceSummary& use : summary.resources()) {
    if (use.process().empty() || kernel_of_host.count(use.host()) == 0) continue;
    computers[kernel_of_host[use.host()]].job_percent += use.cpu_percent().mean();
  }
  absl::optional<double> largest;
  for (const auto& [kernel, computer] : computers) {
    if (computer.cores == 0 || computer.all_percent < 0) continue;
    const double share = (computer.all_percent - computer.job_percent) / (100.0 * computer.cores);
    largest = std::max(largest.value_or(0), std::clamp(share, 0.0, 1.0));
  }
  return largest;
}

}  // namespace tethys
