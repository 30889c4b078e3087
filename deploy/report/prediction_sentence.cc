#include "deploy/report/prediction_sentence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/variant_name.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr size_t kListed = 8;

struct Compared {
  double error = 0;  // The error |ln(predicted / measured)|.
  std::string text;
};

std::string RateText(double rate) { return CountText(std::llround(rate)); }

}  // namespace

std::string PredictionSentence(const proto::Report& report) {
  std::vector<Compared> compared;
  size_t outside = 0;
  for (const proto::ReportVariant& variant : report.variant()) {
    const proto::Prediction& prediction = variant.summary().prediction();
    const double measured = variant.summary().timing().samples_per_second();
    const proto::Estimate& rate = prediction.samples_per_second();
    if (measured <= 0 || rate.value() <= 0) continue;
    const bool within = rate.low() <= measured && measured <= rate.high();
    outside += within ? 0 : 1;
    compared.push_back({std::abs(std::log(rate.value() / measured)),
                        absl::StrFormat("%s: predicted %s (%s to %s), measured %s%s", NameInText(variant),
                                        RateText(rate.value()), RateText(rate.low()), RateText(rate.high()),
                                        RateText(measured), within ? "" : ", outside the interval")});
  }
  if (compared.empty()) return "";
  const size_t all = compared.size();
  std::stable_sort(compared.begin(), compared.end(),
                   [](const Compared& a, const Compared& b) { return a.error > b.error; });
  compared.resize(std::min(all, kListed));
  const std::string more =
      all > kListed ? absl::StrCat("; and ", all - kListed, " variants that were predicted better (", outside,
                                   " of all ", all, " outside their intervals)")
                    : "";
  return absl::StrCat(
      "Samples a second, as predicted before the start with 90 % intervals: ",
      absl::StrJoin(compared, "; ", [](std::string* out, const Compared& one) { out->append(one.text); }),
      more, ".");
}

}  // namespace tethys
