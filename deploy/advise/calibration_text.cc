#include "deploy/advise/calibration_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"

namespace tethys {
namespace {

// The text warns if other programs used at least this share of a computer's CPU.
constexpr double kWarns = 0.15;

}  // namespace

std::string CalibrationText(const proto::Calibration& calibration) {
  std::string text = "Computers\n";
  for (const proto::ComputerCalibration& computer : calibration.computer()) {
    std::vector<std::string> times, capacity;
    for (const proto::BatchTime& time : computer.time()) {
      times.push_back(absl::StrCat(time.batch(), ": ", TimeText(time.step())));
    }
    for (int i = 0; i < computer.capacity_size(); ++i) {
      capacity.push_back(absl::StrFormat("%d ranks %.2f", computer.capacity_ranks(i), computer.capacity(i)));
    }
    absl::StrAppend(&text, "  ", absl::StrJoin(computer.host(), ", "), ", ", computer.device(), ", ",
                    PluralText(computer.cores(), "core"), "\n");
    absl::StrAppend(&text, "    step time by batch    ", absl::StrJoin(times, ", "), "\n");
    if (!capacity.empty()) {
      absl::StrAppend(&text, "    relative throughput   ", absl::StrJoin(capacity, ", "), "\n");
    }
    absl::StrAppendFormat(&text, "    CPU of other programs %.0f %%, taken by the hypervisor %.0f %%\n",
                          100 * computer.foreign(), 100 * computer.steal());
  }
  if (calibration.link_size() > 0) {
    const auto slowest = std::min_element(
        calibration.link().begin(), calibration.link().end(),
        [](const auto& a, const auto& b) { return a.bytes_per_second() < b.bytes_per_second(); });
    absl::StrAppendFormat(&text, "Links\n  %d measured; the slowest, %s to %s: %s Mbit/s, %s one way\n",
                          calibration.link_size(), slowest->from(), slowest->to(),
                          DigitsText(8e-6 * slowest->bytes_per_second(), 4), TimeText(slowest->delay()));
  }
  std::vector<std::vector<std::string>> rows;
  for (const proto::Anchor& anchor : calibration.anchor()) {
    rows.push_back({anchor.strategy(), absl::StrCat(anchor.workers()), absl::StrCat(anchor.servers()),
                    absl::StrCat(anchor.global_batch()), TimeText(anchor.step()),
                    TimeText(anchor.predicted()),
                    absl::StrFormat("%+.1f %%", 100 * (anchor.predicted() / anchor.step() - 1))});
  }
  absl::StrAppend(&text, "Brief runs\n",
                  Table({{{"strategy"}, true},
                         {{"workers"}},
                         {{"servers"}},
                         {{"batch"}},
                         {{"step"}},
                         {{"fitted"}},
                         {{"difference"}}},
                        rows));
  for (const proto::ComputerCalibration& computer : calibration.computer()) {
    if (computer.foreign() + computer.steal() < kWarns) continue;
    absl::StrAppendFormat(&text,
                          "Other programs used %.0f %% of the CPU of %s, so these times are too long and "
                          "uncertain: calibrate again when this machine does nothing else.\n",
                          100 * (computer.foreign() + computer.steal()), computer.host(0));
  }
  if (!calibration.refusal().empty()) absl::StrAppend(&text, "Not calibrated: ", calibration.refusal(), "\n");
  return text;
}

}  // namespace tethys
