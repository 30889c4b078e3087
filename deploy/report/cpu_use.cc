#include "deploy/report/cpu_use.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {

double MostOthersCpu(const proto::Report& report) {
  double most = 0;
  for (const proto::ReportVariant& variant : report.variant()) {
    most = std::max(most, variant.others_cpu().mean());
  }
  return most;
}

namespace {

// If the batches and devices of two variants are similar, their times to compute one sample differ by less
// than this factor.
constexpr double kOtherArithmetic = 1.5;

// A worker's time to compute one sample; 0: not known.
double SampleSeconds(const proto::ReportVariant& variant) {
  const double samples = variant.seconds().mean() * variant.samples_per_second().mean();
  return samples > 0 ? variant.compute_seconds().mean() * variant.workers() / samples : 0;
}

}  // namespace

std::string ClockDoubt(const proto::ReportVariant& a, const proto::ReportVariant& b) {
  if (std::max(a.others_cpu().mean(), b.others_cpu().mean()) > kOthersCpu) {
    return "other programs took a part of the CPU";
  }
  const double own = SampleSeconds(a), other = SampleSeconds(b);
  if (own <= 0 || other <= 0 || std::max(own / other, other / own) < kOtherArithmetic) return "";
  return absl::StrCat("computing took ", TimeText(own), " a sample with ", NameInText(a), " and ",
                      TimeText(other), " with ", NameInText(b));
}

CpuUse BusiestCpu(const proto::ReportVariant& variant) {
  // For each host: the id of the host's computer, and the host's cores.
  std::map<std::string, std::pair<std::string, int>> computers;
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
