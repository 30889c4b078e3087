#include "deploy/report/time_to_accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/telemetry/csv_reader.h"

namespace tethys {

using proto::EpochPoint;

std::vector<EpochPoint> ParseEpochs(absl::string_view csv) {
  std::map<int64_t, EpochPoint> epochs;
  for (CsvReader line(csv); line.Next();) {
    const int64_t number = line.Integer("epoch");
    epochs.erase(epochs.upper_bound(number), epochs.end());
    EpochPoint& epoch = epochs[number];
    epoch = {};
    epoch.set_seconds(line.Number("train_seconds"));
    epoch.set_train_loss(line.Number("train_loss"));
    epoch.set_train_accuracy(line.Number("train_accuracy"));
    if (line.Text("validation_loss").empty()) continue;
    epoch.set_validation_loss(line.Number("validation_loss"));
    if (line.Text("validation_accuracy").empty()) continue;
    epoch.set_validation_accuracy(line.Number("validation_accuracy"));
  }
  std::vector<EpochPoint> points;
  double seconds = 0;
  for (auto& [number, epoch] : epochs) {
    seconds += epoch.seconds();
    epoch.set_seconds(seconds);
    points.push_back(std::move(epoch));
  }
  return points;
}

absl::optional<double> BestAccuracy(absl::Span<const EpochPoint> epochs) {
  absl::optional<double> best;
  for (const EpochPoint& epoch : epochs) {
    if (epoch.has_validation_accuracy()) best = std::max(best.value_or(0), epoch.validation_accuracy());
  }
  return best;
}

absl::optional<Reached> FirstAtOrAbove(double target, absl::Span<const EpochPoint> epochs) {
  for (size_t i = 0; i < epochs.size(); ++i) {
    if (epochs[i].has_validation_accuracy() && epochs[i].validation_accuracy() >= target) {
      return Reached{.seconds = epochs[i].seconds(), .epochs = static_cast<int>(i) + 1};
    }
  }
  return absl::nullopt;
}

absl::optional<double> CommonTarget(absl::Span<const double> best) {
  if (best.empty()) return absl::nullopt;
  // Needed because 100 * 0.29 is slightly less than 29 in floating point.
  constexpr double kRounding = 1e-9;
  const double percent = std::floor(100 * *std::min_element(best.begin(), best.end()) + kRounding);
  if (percent < 1) return absl::nullopt;
  return percent / 100;
}

std::string TargetText(const proto::AccuracyTarget& target) {
  const char* choice = target.given()       ? ""
                       : target.runs() == 1 ? " (the highest whole percent that the run reached)"
                                            : " (the highest whole percent that every run reached)";
  return absl::StrFormat("%.4g %% validation accuracy%s", 100 * target.accuracy(), choice);
}

}  // namespace tethys
