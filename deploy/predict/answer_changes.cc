#include "deploy/predict/answer_changes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/shape_words.h"
#include "runtime/base/quantile.h"

namespace tethys {
namespace {

// The search for a turn ends when the turn lies between two values whose ratio is at most kPrecision.
constexpr double kPrecision = 1.03;

// The geometric mean of two values; if `whole`, a whole number strictly between them.
double Between(double a, double b, bool whole) {
  const double middle = std::sqrt(a * b);
  return whole ? std::clamp(std::round(middle), std::min(a, b) + 1, std::max(a, b) - 1) : middle;
}

bool Close(double a, double b, bool whole) {
  const double least = std::min(a, b), most = std::max(a, b);
  return whole ? most - least <= 1 : most <= least * kPrecision;
}

// Finds the first turn between range.now and `end`.
absl::StatusOr<absl::optional<Turn>> FindTurn(const PropertyRange& range, double end, const JobStrategy& now,
                                              const BestAt& best_at) {
  // The farthest value at which the best candidate is known to have the strategy `now`.
  double same = range.now;
  while (same != end) {
    double next = end > same ? std::min(end, 2 * same) : std::max(end, same / 2);
    if (range.whole) next = std::floor(next);
    TETHYS_ASSIGN_OR_RETURN(Candidate best, best_at(next));
    if (best.shape.strategy == now) {
      same = next;
      continue;
    }
    Turn turn{.value = next, .best = std::move(best)};
    while (!Close(same, turn.value, range.whole)) {
      const double middle = Between(same, turn.value, range.whole);
      TETHYS_ASSIGN_OR_RETURN(Candidate there, best_at(middle));
      if (there.shape.strategy == now) {
        same = middle;
      } else {
        turn = {.value = middle, .best = std::move(there)};
      }
    }
    return turn;
  }
  return absl::nullopt;
}

double ToTwoDigits(double value, bool up) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
  const double units = value / unit;
  // A value that has only two digits already must not change by a rounding error of `units`. This is why
  // the factors 1 - 1e-9 and 1 + 1e-9 are applied.
  return (up ? std::ceil(units * (1 - 1e-9)) : std::floor(units * (1 + 1e-9))) * unit;
}

}  // namespace

absl::StatusOr<PropertyTurns> FindTurns(const PropertyRange& range, const JobStrategy& now,
                                        const BestAt& best_at) {
  PropertyTurns turns{.range = range, .below = {}, .above = {}};
  TETHYS_ASSIGN_OR_RETURN(turns.below, FindTurn(range, range.least, now, best_at));
  TETHYS_ASSIGN_OR_RETURN(turns.above, FindTurn(range, range.most, now, best_at));
  return turns;
}

std::string TurnsText(const PropertyTurns& turns, const std::function<std::string(double)>& text) {
  const PropertyRange& range = turns.range;
  const auto rounded = [&](double value, bool up) {
    if (range.whole) return value;
    return std::clamp(ToTwoDigits(value, up), range.least, range.most);
  };
  std::vector<std::string> parts;
  if (turns.above.has_value()) {
    parts.push_back(absl::StrCat("from ", text(rounded(turns.above->value, true)), " on, ",
                                 ShapePhrase(turns.above->best.shape), " would be the best"));
  }
  if (turns.below.has_value()) {
    const double value = rounded(turns.below->value, false);
    parts.push_back(absl::StrCat("at ", text(value), value > range.least ? " and below, " : ", ",
                                 ShapePhrase(turns.below->best.shape), " would be the best"));
  }
  if (parts.empty()) {
    return absl::StrCat("no value from ", text(range.least), " to ", text(range.most),
                        " changes the strategy.");
  }
  if (!turns.above.has_value() && range.most > range.now) {
    parts.push_back(absl::StrCat("no value up to ", text(range.most), " changes the strategy"));
  }
  if (!turns.below.has_value() && range.least < range.now) {
    parts.push_back(absl::StrCat("no value down to ", text(range.least), " changes the strategy"));
  }
  return absl::StrCat(absl::StrJoin(parts, "; "), ".");
}

StrategyCorrections CorrectionsOf(const std::vector<Candidate>& candidates) {
  StrategyCorrections predicted, measured, corrections;
  for (const Candidate& candidate : candidates) {
    double& best = predicted[candidate.shape.strategy];
    best = std::max(best, candidate.prediction.samples_per_second().value());
    if (candidate.measured.empty()) continue;
    double& ran = measured[candidate.shape.strategy];
    ran = std::max(ran, Median(candidate.measured));
  }
  for (const auto& [strategy, rate] : measured) {
    if (rate > 0) corrections[strategy] = predicted[strategy] / rate;
  }
  return corrections;
}

absl::StatusOr<Candidate> BestByModel(const std::vector<Candidate>& candidates,
                                      const StrategyCorrections& corrections, const AdviceGoal& goal) {
  std::vector<Candidate> corrected;
  for (const Candidate& candidate : candidates) {
    if (!candidate.synchronous()) continue;
    corrected.push_back(candidate);
    const auto correction = corrections.find(candidate.shape.strategy);
    const double slower = correction == corrections.end() ? 1 : correction->second;
    // The corrected rate is stored as a measured rate, because Candidate::total applies a measured rate to
    // the time of the steps, but not to start-up and evaluations.
    corrected.back().measured = {candidate.prediction.samples_per_second().value() / slower};
  }
  if (corrected.empty())
    return absl::FailedPreconditionError("the job cannot run with any synchronous strategy");
  return corrected[Choose(corrected, goal).best];
}

}  // namespace tethys
