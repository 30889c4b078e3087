#include "deploy/predict/disturbance.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/predict/machines.h"
#include "runtime/base/quantile.h"

namespace tethys {

Disturbance DisturbanceOf(const proto::Calibration& calibration) {
  Disturbance worst;
  for (const proto::ComputerCalibration& computer : calibration.computer()) {
    const double share = computer.foreign() + computer.steal();
    if (share <= worst.share) continue;
    worst = {.share = share, .host = computer.host_size() > 0 ? computer.host(0) : computer.kind()};
  }
  std::vector<double> of_runs;
  for (const proto::Anchor& anchor : calibration.anchor()) {
    if (anchor.has_others_cpu()) of_runs.push_back(anchor.others_cpu());
  }
  if (of_runs.empty()) return worst;
  const double median = Median(std::move(of_runs));
  return median > worst.share ? Disturbance{.share = median, .host = {}} : worst;
}

std::string DisturbanceText(const Disturbance& disturbance) {
  const bool named = !disturbance.host.empty() && disturbance.host != kThisMachine;
  return absl::StrFormat("other programs used %.0f %% of the CPU%s", 100 * disturbance.share,
                         named ? absl::StrCat(" of ", disturbance.host) : "");
}

absl::Status CheckDisturbance(const Disturbance& disturbance, double most, const std::string& what) {
  if (disturbance.share <= most) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: %s meanwhile, and at most %.0f %% are accepted, because other programs change the "
                      "measured times: end these programs, or wait for their end, and run this command "
                      "again; --max_others_cpu=100 accepts any use",
                      what, DisturbanceText(disturbance), 100 * most));
}

}  // namespace tethys
