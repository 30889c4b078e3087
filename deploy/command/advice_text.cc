#include "deploy/command/advice_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/calibrate/anchors.h"
#include "deploy/text.h"
#include "runtime/base/quantile.h"

namespace tethys {
namespace {

constexpr int kWidth = 100;
constexpr size_t kMostLeftOut = 6;
constexpr size_t kShown = 8;  // The most rows for synchronous candidates, and as many for asynchronous ones.
constexpr double kShownShare = 0.05;  // The least share of a step that is worth a sentence.
constexpr char kOverhead[] = "overhead";

std::string NameOf(const Candidate& candidate) {
  return ShapeText({candidate.strategy, candidate.workers, candidate.servers});
}

std::string RateText(double rate) { return CountText(std::llround(rate)); }

// The part of a step that goes to this resource.
double ShareOf(const Candidate& candidate, absl::string_view resource) {
  for (const proto::Bound& bound : candidate.prediction.bound()) {
    if (bound.resource() == resource) return bound.share();
  }
  return 0;
}

// The largest part of a step's exchange; nullptr: it is below kShownShare.
const proto::Bound* ExchangeBound(const Candidate& candidate) {
  for (const proto::Bound& bound : candidate.prediction.bound()) {
    const bool exchange = !absl::StartsWith(bound.resource(), "compute") && bound.resource() != kOverhead;
    if (exchange) return bound.share() > kShownShare ? &bound : nullptr;
  }
  return nullptr;
}

double RateOf(const Candidate& candidate) {
  return candidate.measured.empty() ? candidate.prediction.samples_per_second().value()
                                    : Median(candidate.measured);
}

std::string GoalText(const AdviceGoal& goal) {
  std::vector<std::string> parts;
  if (goal.deadline.has_value()) parts.push_back(absl::StrCat("the deadline of ", TimeText(*goal.deadline)));
  if (goal.budget.has_value()) parts.push_back(absl::StrFormat("the budget of %.4g", *goal.budget));
  return absl::StrJoin(parts, " and ");
}

std::string Sentence(const std::vector<Candidate>& candidates, const Advice& advice, const AdviceGoal& goal) {
  const Candidate& best = candidates[advice.best];
  std::string text =
      advice.met ? absl::StrCat("Run ", NameOf(best))
                 : absl::StrCat("Nothing meets ", GoalText(goal), "; ", NameOf(best), " comes nearest");
  absl::StrAppend(&text, ": about ", TimeText(best.total()), " for the whole job");
  if (best.cost() > 0) absl::StrAppendFormat(&text, ", cost %.3g", best.cost());
  absl::StrAppend(&text, " (", RateText(RateOf(best)), " samples/s, ",
                  best.measured.empty() ? "predicted, not verified" : "measured in brief runs", "). ");
  if (advice.second >= 0) {
    const Candidate& second = candidates[advice.second];
    const double ratio = second.total() / best.total();
    absl::StrAppendFormat(&text, "With %s it would take %.2f times as long", NameOf(second), ratio);
    const proto::Bound* bound = ExchangeBound(second);
    if (bound != nullptr && ratio > 1.03) {
      absl::StrAppendFormat(&text, ", of whose step %.0f %% go to the %s", 100 * bound->share(),
                            bound->resource());
    }
    absl::StrAppend(&text, ". ");
  }
  if (advice.tied) {
    absl::StrAppend(&text, best.measured.empty()
                               ? "By its prediction, the next candidate is equally good. "
                               : "The next candidate is equally good within the noise of these runs. ");
  }
  if (const proto::Bound* bound = ExchangeBound(best); bound != nullptr) {
    absl::StrAppendFormat(
        &text,
        "Besides computing, most would change with the %s: it accounts for %.0f %% of a step, so one twice "
        "as fast would save up to %.0f %%.",
        bound->resource(), 100 * bound->share(), 50 * bound->share());
  } else if (const double overhead = ShareOf(best, kOverhead); overhead > kShownShare) {
    absl::StrAppendFormat(&text,
                          "Of a step, %.0f %% are overhead, which the model takes for constant; "
                          "computing accounts for nearly all of the rest.",
                          100 * overhead);
  } else {
    absl::StrAppend(&text, "Computing accounts for nearly all of a step.");
  }
  return text;
}

std::vector<std::string> RowOf(const Candidate& candidate, bool with_costs) {
  const proto::Estimate& rate = candidate.prediction.samples_per_second();
  std::vector<std::string> row = {candidate.strategy,
                                  absl::StrCat(candidate.workers),
                                  absl::StrCat(candidate.servers),
                                  RateText(rate.value()),
                                  absl::StrCat(RateText(rate.low()), "-", RateText(rate.high())),
                                  candidate.measured.empty() ? "" : RateText(Median(candidate.measured)),
                                  TimeText(candidate.total())};
  if (with_costs) row.push_back(candidate.cost() > 0 ? absl::StrFormat("%.3g", candidate.cost()) : "");
  return row;
}

// The measured candidates, the fastest of the others, and in any case `best`.
std::string TableOf(const std::vector<Candidate>& candidates, std::vector<int> indices, int best) {
  std::stable_sort(indices.begin(), indices.end(), [&](int a, int b) {
    const bool left = candidates[a].measured.empty(), right = candidates[b].measured.empty();
    return left != right ? right : candidates[a].total() < candidates[b].total();
  });
  const bool with_costs =
      std::any_of(indices.begin(), indices.end(), [&](int index) { return candidates[index].cost() > 0; });
  std::vector<std::vector<std::string>> rows;
  for (const int index : indices) {
    if (rows.size() >= kShown && candidates[index].measured.empty() && index != best) continue;
    rows.push_back(RowOf(candidates[index], with_costs));
  }
  std::vector<Column> columns = {{{"strategy"}, true},
                                 {{"workers"}},
                                 {{"servers"}},
                                 {{"samples/s", "predicted"}},
                                 {{"samples/s", "90 % interval"}},
                                 {{"samples/s", "measured"}},
                                 {{"whole job"}}};
  if (with_costs) columns.push_back({{"cost"}});
  return Table(columns, rows);
}

}  // namespace

std::string NoiseScaleText(const proto::RunSummary& run) {
  const auto& epochs = run.gradient_noise();
  const auto last = std::find_if(epochs.rbegin(), epochs.rend(),
                                 [](const proto::GradientNoise& noise) { return noise.has_samples(); });
  if (last == epochs.rend()) return "";
  return absl::StrFormat(
      "Not used for the choice: the gradient-noise scale was %s samples in epoch %d, with batches of %s. "
      "Doubling a batch far below it halves the number of steps; doubling one far above it saves few.",
      RateText(last->samples()), last->epoch() + 1, CountText(run.global_batch()));
}

std::string AdviceText(const std::vector<Candidate>& candidates, const Advice& advice, const AdviceGoal& goal,
                       const AdviceNotes& notes) {
  std::vector<int> synchronous, others;
  for (size_t i = 0; i < candidates.size(); ++i) {
    (candidates[i].synchronous() ? synchronous : others).push_back(static_cast<int>(i));
  }
  std::string text;
  if (!notes.supposed.empty()) {
    absl::StrAppend(
        &text,
        Wrap(absl::StrCat("Supposed: ", notes.supposed,
                          ". All that follows is a model's word: no run can check machines that are not "
                          "there."),
             "", kWidth));
  }
  absl::StrAppend(&text, Wrap(Sentence(candidates, advice, goal), "", kWidth));
  if (!notes.put_aside.empty()) absl::StrAppend(&text, "Put aside, because a brief run failed:\n");
  for (const std::string& error : notes.put_aside) absl::StrAppend(&text, Wrap(error, "  ", kWidth));
  if (!notes.changes.empty()) absl::StrAppend(&text, "What would change the answer, by the model:\n");
  for (const std::string& change : notes.changes) absl::StrAppend(&text, Wrap(change, "  ", kWidth));
  absl::StrAppend(&text, "\n", TableOf(candidates, synchronous, advice.best));
  if (!others.empty()) {
    absl::StrAppend(
        &text, "\n",
        Wrap("Asynchronous training makes other updates, from stale parameters, so it may need other "
             "numbers of epochs for the same accuracy: tethys compare --target_accuracy tells.",
             "", kWidth),
        TableOf(candidates, others, advice.best));
  }
  if (candidates[advice.best].cost() > 0 && advice.pareto.size() > 1) {
    std::vector<std::string> parts;
    for (const int index : advice.pareto) {
      parts.push_back(absl::StrFormat("%s (%s, %.3g)", NameOf(candidates[index]),
                                      TimeText(candidates[index].total()), candidates[index].cost()));
    }
    absl::StrAppend(&text, "\n",
                    Wrap(absl::StrCat("Faster costs more, from the fastest to the cheapest: ",
                                      absl::StrJoin(parts, "; "), "."),
                         "", kWidth));
  }
  if (!notes.noise.empty()) absl::StrAppend(&text, "\n", Wrap(notes.noise, "", kWidth));
  size_t lines = 0;
  for (const std::string& line : notes.left_out) {
    if (++lines > kMostLeftOut) break;
    absl::StrAppend(&text, "left out: ", line, "\n");
  }
  if (notes.left_out.size() > kMostLeftOut) {
    absl::StrAppend(&text, "left out: ", notes.left_out.size() - kMostLeftOut, " more, for such reasons\n");
  }
  return text;
}

}  // namespace tethys
