#include "deploy/report/cpu_use.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tethys {

double MostOthersCpu(const proto::Report& report) {
  double most = 0;
  for (const proto::ReportVariant& variant : report.variant()) {
    most = std::max(most, variant.others_cpu().mean());
  }
  return most;
}

CpuUse BusiestCpu(const proto::ReportVariant& variant) {
  std::map<std::string, std::pair<std::string, int>> computers;  // Id and cores, by host.
  for (const proto::ResourceSummary& line : variant.summary().resources()) {
    if (line.host().empty() || !line.process().empty()) continue;
    computers[line.host()] = {line.boot_id().empty() ? line.host() : line.boot_id(), line.cores()};
  }
  std::map<std::string, CpuUse> uses;
  for (const proto::MachineSeries& machine : variant.machine()) {
    const auto computer = computers.find(machine.host());
    if (computer == computers.end() || computer->second.second <= 0 || !machine.has_training()) continue;
    CpuUse& use = uses[computer->second.first];
    use.host = machine.host();
    use.cores = computer->second.second;
    use.busy = std::max(use.busy, machine.training().cpu_percent() / 100 / use.cores);
    use.job += machine.training().job_cpu_percent() / 100 / use.cores;
  }
  CpuUse busiest;
  for (const auto& [computer, use] : uses) {
    if (busiest.cores == 0 || use.busy > busiest.busy) busiest = use;
  }
  busiest.computers = static_cast<int>(uses.size());
  return busiest;
}

}  // namespace tethys
