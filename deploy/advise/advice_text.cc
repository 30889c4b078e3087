#include "deploy/advise/advice_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "deploy/calibrate/anchors.h"
#include "deploy/hosts/cluster_plan.h"
#include "deploy/predict/disturbance.h"
#include "deploy/shape_words.h"
#include "deploy/text.h"
#include "runtime/base/quantile.h"

namespace tethys {
namespace {

constexpr int kWidth = 100;
constexpr size_t kMostLeftOut = 6;
constexpr size_t kShown = 8;       // The most rows of a table of candidates that were not measured.
constexpr size_t kOfStrategy = 3;  // The most of these rows with the same strategy and the same hosts.
constexpr size_t kContradicted =
    3;  // The most candidates that the text names as contradicted by their brief runs.
constexpr double kShownShare = 0.05;  // A resource that takes a smaller share of a step is not mentioned.
constexpr char kOverhead[] = "overhead";

std::string NameOf(const Candidate& candidate) {
  const std::string shape = ShapeText(candidate.shape);
  return candidate.use.empty() ? shape : absl::StrCat(shape, " (", candidate.use, ")");
}

std::string RateText(double rate) { return CountText(std::llround(rate)); }

// The share of a step that `resource` takes.
double ShareOf(const Candidate& candidate, absl::string_view resource) {
  for (const proto::Bound& bound : candidate.prediction.bound()) {
    if (bound.resource() == resource) return bound.share();
  }
  return 0;
}

// The resource that takes the largest share of a step, apart from computing and overhead; nullptr if this
// share is at most kShownShare.
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
  if (goal.budget.has_value()) parts.push_back(absl::StrCat("the budget of ", DigitsText(*goal.budget, 4)));
  return absl::StrJoin(parts, " and ");
}

std::string Sentence(const std::vector<Candidate>& candidates, const Advice& advice, const AdviceGoal& goal) {
  const Candidate& best = candidates[advice.best];
  std::string text = advice.met ? absl::StrCat("Run ", NameOf(best))
                                : absl::StrCat("Nothing meets ", GoalText(goal), "; ", NameOf(best),
                                               " comes closest to this goal");
  absl::StrAppend(&text, ": about ", TimeText(best.total()), " for the whole job");
  if (best.cost() > 0) absl::StrAppend(&text, ", cost ", DigitsText(best.cost(), 3), " ", kCostUnit);
  absl::StrAppend(&text, " (", RateText(RateOf(best)), " samples/s, ",
                  best.measured.empty() ? "predicted, not verified" : "measured in brief runs", "). ");
  if (advice.second >= 0) {
    const Candidate& second = candidates[advice.second];
    const double ratio = second.total() / best.total();
    absl::StrAppendFormat(&text, "With %s the job would take %.2f times as long%s", NameOf(second), ratio,
                          advice.second_differs   ? ""
                          : best.measured.empty() ? ", a difference within the error of the predictions"
                                                  : ", a difference that may be chance");
    const proto::Bound* bound = ExchangeBound(second);
    if (bound != nullptr && advice.second_differs && ratio > 1) {
      absl::StrAppendFormat(
          &text, "; this alternative waits %.0f %% of each step for the exchange, because of the %s",
          100 * bound->share(), bound->resource());
    }
    absl::StrAppend(&text, ". ");
  }
  if (advice.tied >= 0) {
    absl::StrAppend(
        &text,
        best.measured.empty() ? "Within the error of the predictions, " : "Within the noise of these runs, ",
        NameOf(candidates[advice.tied]), " is equally good. ");
  }
  if (const proto::Bound* bound = ExchangeBound(best); bound != nullptr) {
    absl::StrAppendFormat(
        &text,
        "Besides computing, waiting for the exchange matters most: it takes %.0f %% of a step "
        "because of the %s, so doubling the speed of the %s would save up to %.0f %% of the step.",
        100 * bound->share(), bound->resource(), bound->resource(), 50 * bound->share());
  } else if (const double overhead = ShareOf(best, kOverhead); overhead > kShownShare) {
    absl::StrAppendFormat(&text,
                          "%.0f %% of a step are overhead, which the model assumes to be constant; computing "
                          "accounts for nearly all of the rest of the step.",
                          100 * overhead);
  } else {
    absl::StrAppend(&text, "Computing accounts for nearly all of a step.");
  }
  return text;
}

std::string TableOf(const std::vector<Candidate>& candidates, const std::vector<int>& indices) {
  const auto any = [&](bool (*holds)(const Candidate&)) {
    return std::any_of(indices.begin(), indices.end(), [&](int index) { return holds(candidates[index]); });
  };
  const bool costs = any([](const Candidate& one) { return one.cost() > 0; });
  const bool measured = any([](const Candidate& one) { return !one.measured.empty(); });
  const bool uses = any([](const Candidate& one) { return !one.use.empty(); });
  std::vector<Column> columns = {{{"strategy"}, true}, {{"workers"}}, {{"servers"}}};
  if (uses) columns.push_back({{"hosts"}, true});
  columns.push_back({{"samples/s", "predicted"}});
  columns.push_back({{"samples/s", "90 % interval"}});
  if (measured) columns.push_back({{"samples/s", "measured"}});
  columns.push_back({{"whole job"}});
  if (costs) columns.push_back({{"cost"}});
  std::vector<std::vector<std::string>> rows;
  for (const int index : indices) {
    const Candidate& candidate = candidates[index];
    const proto::Estimate& rate = candidate.prediction.samples_per_second();
    std::vector<std::string>& row = rows.emplace_back();
    row = {StrategyName(candidate.shape.strategy), absl::StrCat(candidate.shape.workers),
           absl::StrCat(candidate.shape.servers)};
    if (uses) row.push_back(candidate.use.empty() ? "as in the file" : candidate.use);
    row.push_back(RateText(rate.value()));
    row.push_back(absl::StrCat(RateText(rate.low()), "-", RateText(rate.high())));
    if (measured) row.push_back(RateText(Median(candidate.measured)));
    row.push_back(TimeText(candidate.total()));
    if (costs) row.push_back(candidate.cost() > 0 ? DigitsText(candidate.cost(), 3) : "");
  }
  return Table(columns, rows);
}

// A table of the measured candidates and a table of the fastest other candidates, each sorted by the time of
// the whole job. `best` is shown even if it is not among the fastest.
std::string TablesOf(const std::vector<Candidate>& candidates, std::vector<int> indices, int best) {
  std::stable_sort(indices.begin(), indices.end(),
                   [&](int a, int b) { return candidates[a].total() < candidates[b].total(); });
  std::vector<int> measured, predicted;
  std::map<std::pair<JobStrategy, std::string>, size_t> of_strategy;
  size_t shown = 0;
  for (const int index : indices) {
    const Candidate& candidate = candidates[index];
    if (!candidate.measured.empty()) {
      measured.push_back(index);
    } else if (index == best) {
      predicted.push_back(index);
    } else if (shown < kShown && ++of_strategy[{candidate.shape.strategy, candidate.use}] <= kOfStrategy) {
      predicted.push_back(index);
      ++shown;
    }
  }
  std::string text;
  if (!measured.empty())
    absl::StrAppend(&text, "Measured candidates, in the order of the time of the whole job\n",
                    TableOf(candidates, measured));
  if (!measured.empty() && !predicted.empty()) absl::StrAppend(&text, "\n");
  if (!predicted.empty()) {
    absl::StrAppend(&text,
                    "Candidates that were only predicted, in the order of the time of the whole "
                    "job\n",
                    TableOf(candidates, predicted));
  }
  return text;
}

// Names the candidates whose predictions were contradicted by brief runs.
std::string ContradictionText(const std::vector<Candidate>& candidates) {
  std::vector<std::string> named;
  size_t contradicted = 0, verified = 0;
  for (const Candidate& candidate : candidates) {
    verified += candidate.measured.empty() ? 0 : 1;
    if (!candidate.contradicted() || ++contradicted > kContradicted) continue;
    const proto::Estimate& rate = candidate.prediction.samples_per_second();
    named.push_back(absl::StrCat(NameOf(candidate), " had ", RateText(Median(candidate.measured)),
                                 " samples/s where ", RateText(rate.value()), " (", RateText(rate.low()),
                                 " to ", RateText(rate.high()), ") were predicted"));
  }
  if (contradicted == 0) return "";
  return absl::StrCat(
      "The brief runs contradict the predictions of ", contradicted, " of ", verified,
      " candidates, because the measured values lie outside the predicted intervals: ",
      absl::StrJoin(named, "; "),
      ". The choice is based on these runs; conclusions from predictions alone may be far off.");
}

// Returns sentences on why the predictions of some strategies may be far off. Leaves out the remark about
// supposed machines (--what_if), which is printed earlier.
std::vector<std::string> RemarksOf(const std::vector<Candidate>& candidates, const std::string& supposed) {
  std::map<std::string, std::set<std::string>> strategies;
  for (const Candidate& candidate : candidates) {
    absl::string_view remark = candidate.prediction.remark();
    const size_t at = supposed.empty() ? absl::string_view::npos : remark.find(supposed);
    if (at != absl::string_view::npos) remark.remove_prefix(at + supposed.size());
    // Removes the remark that other programs used the CPU during the calibration, because the text contains
    // that remark once for all strategies.
    remark = remark.substr(0, remark.find("other programs used "));
    absl::ConsumePrefix(&remark, "; ");
    absl::ConsumeSuffix(&remark, "; ");
    if (!remark.empty()) strategies[std::string(remark)].insert(StrategyName(candidate.shape.strategy));
  }
  std::vector<std::string> remarks;
  for (const auto& [remark, of] : strategies) {
    remarks.push_back(absl::StrCat("Predictions of ", absl::StrJoin(of, ", "), ": ", remark, "."));
  }
  return remarks;
}

// Says where the predictions come from, and how much CPU other programs used during the brief runs.
std::string SourceSentence(const AdviceNotes& notes) {
  std::string text = notes.source;
  if (!text.empty()) {
    text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
    absl::StrAppend(&text, notes.calibration_disturbed ? ", so predictions may be far off." : ".");
  }
  if (notes.others_cpu > 0) {
    absl::StrAppendFormat(
        &text, "%sDuring the brief runs, other programs used %.0f %% of the CPU%s.", text.empty() ? "" : " ",
        100 * notes.others_cpu,
        notes.others_cpu > kDisturbed ? ", so another candidate may be the best without these programs" : "");
  }
  return text;
}

}  // namespace

std::string PlacesText(const std::vector<HostEntry>& hosts, const JobMachines& machines) {
  ClusterPlan plan{.hosts = hosts, .roles = {}, .worker_devices = {}};
  const auto in_file = [&](int host) {
    const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const HostEntry& entry) {
      return entry.host == machines.hosts[host];
    });
    return static_cast<int>(found - hosts.begin());
  };
  plan.roles.chief = in_file(machines.chief);
  for (const int host : machines.workers) plan.roles.workers.push_back(in_file(host));
  for (const int host : machines.servers) plan.roles.servers.push_back(in_file(host));
  return ClusterTable(plan);
}

std::string MachinesText(const std::vector<Candidate>& candidates) {
  const Candidate *one = nullptr, *several = nullptr, *most = nullptr;
  const auto keep_faster = [](const Candidate& candidate, const Candidate*& best) {
    if (best == nullptr || candidate.total() < best->total()) best = &candidate;
  };
  for (const Candidate& candidate : candidates) {
    if (!candidate.synchronous()) continue;
    keep_faster(candidate, candidate.machines == 1 ? one : several);
    if (most == nullptr || candidate.machines > most->machines) most = &candidate;
    if (candidate.machines == most->machines) keep_faster(candidate, most);
  }
  if (one == nullptr || several == nullptr) return "";
  for (const Candidate* more : {several, most}) {
    const double ratio = more->total() / one->total(), least = LeastDifference(*one, *more);
    if (ratio <= 1 - least) continue;
    const bool slower = ratio >= 1 + least;
    const bool measured = !one->measured.empty() && !more->measured.empty();
    return absl::StrFormat(
        "%d machines are %s than one machine for this job: %s would take %.2f times as long as %s on one "
        "machine%s.",
        more->machines, slower ? "slower" : "not shown to be faster", NameOf(*more), ratio, NameOf(*one),
        slower     ? ""
        : measured ? ", a difference that may be chance"
                   : ", a difference within the error of the predictions");
  }
  return "";
}

std::string NoiseScaleText(const proto::RunSummary& run) {
  const auto& epochs = run.gradient_noise();
  const auto last = std::find_if(epochs.rbegin(), epochs.rend(),
                                 [](const proto::GradientNoise& noise) { return noise.has_samples(); });
  if (last == epochs.rend()) return "";
  return absl::StrFormat(
      "Not used for the choice: the gradient-noise scale was %s samples in epoch %d, with batches of %s. "
      "Doubling a batch that is far smaller than this scale halves the number of steps; doubling a batch "
      "that is far larger saves few steps.",
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
    absl::StrAppend(&text, Wrap(absl::StrCat("Supposed: ", notes.supposed,
                                             ". All figures below are predicted by the model alone: no run "
                                             "can check them, because the machines do not exist."),
                                "", kWidth));
  }
  absl::StrAppend(&text, Wrap(Sentence(candidates, advice, goal), "", kWidth));
  std::vector<std::string> grounds = {SourceSentence(notes), ContradictionText(candidates),
                                      MachinesText(candidates)};
  const std::vector<std::string> remarks = RemarksOf(candidates, notes.supposed);
  grounds.insert(grounds.end(), remarks.begin(), remarks.end());
  if (!notes.normalisation.empty()) grounds.push_back(absl::StrCat("Note on ", notes.normalisation, "."));
  for (const std::string& ground : grounds) {
    if (!ground.empty()) absl::StrAppend(&text, Wrap(ground, "", kWidth));
  }
  if (!notes.places.empty()) absl::StrAppend(&text, "\n", notes.places, "\n");
  if (!notes.put_aside.empty())
    absl::StrAppend(&text, "Candidates that are not considered, because a brief run of them failed:\n");
  for (const std::string& error : notes.put_aside) absl::StrAppend(&text, Wrap(error, "  ", kWidth));
  if (!notes.changes.empty())
    absl::StrAppend(&text, "What would change the answer, according to the model:\n");
  for (const std::string& change : notes.changes) absl::StrAppend(&text, Wrap(change, "  ", kWidth));
  absl::StrAppend(&text, "\n", TablesOf(candidates, synchronous, advice.best));
  if (!others.empty()) {
    absl::StrAppend(&text, "\n",
                    Wrap("Asynchronous training computes gradients from stale parameters, so its updates "
                         "differ, and it may need more or fewer epochs to reach the same accuracy: "
                         "tethys compare --target_accuracy measures how many.",
                         "", kWidth),
                    TablesOf(candidates, others, advice.best));
  }
  if (std::any_of(candidates.begin(), candidates.end(),
                  [](const Candidate& candidate) { return candidate.cost() > 0; })) {
    absl::StrAppend(&text, "\n", kCostNote, "\n");
  }
  if (candidates[advice.best].cost() > 0 && advice.pareto.size() > 1) {
    std::vector<std::string> parts;
    for (const int index : advice.pareto) {
      parts.push_back(absl::StrFormat("%s (%s, cost %s)", NameOf(candidates[index]),
                                      TimeText(candidates[index].total()),
                                      DigitsText(candidates[index].cost(), 3)));
    }
    absl::StrAppend(&text, "\n",
                    Wrap(absl::StrCat("According to these figures, a shorter run costs more: ",
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
    absl::StrAppend(&text, "left out: ", notes.left_out.size() - kMostLeftOut,
                    " more, for similar reasons\n");
  }
  return text;
}

}  // namespace tethys
