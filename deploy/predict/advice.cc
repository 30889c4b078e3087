#include "deploy/predict/advice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "runtime/base/quantile.h"

namespace tethys {
namespace {

constexpr double kSame = 0.03;  // Candidates that differ by less than this share are equally good.

// The rank of a candidate: first its distance from the goal, then its time or cost. Less is better.
struct Rank {
  double excess = 0;  // The sum of the ratios by which time exceeds the deadline and cost the budget.
  double value = 0;
};

bool HasCost(const Candidate& candidate) { return candidate.cost() > 0; }

// True if candidates are ranked by cost: there is a deadline, and the cost of every synchronous candidate is
// known.
bool RanksByCost(const std::vector<Candidate>& candidates, const AdviceGoal& goal) {
  return goal.deadline.has_value() &&
         std::all_of(candidates.begin(), candidates.end(),
                     [](const Candidate& one) { return !one.synchronous() || HasCost(one); });
}

Rank RankOf(const Candidate& candidate, const AdviceGoal& goal, bool by_cost) {
  Rank rank;
  const double time = candidate.total(), cost = candidate.cost();
  if (goal.deadline.has_value()) rank.excess += std::max(0.0, time / *goal.deadline - 1);
  if (goal.budget.has_value()) rank.excess += std::max(0.0, cost / *goal.budget - 1);
  rank.value = by_cost ? cost : time;
  return rank;
}

// Synchronous candidates, the best first.
std::vector<int> Ranked(const std::vector<Candidate>& candidates, const AdviceGoal& goal) {
  const bool by_cost = RanksByCost(candidates, goal);
  std::vector<int> order;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].synchronous()) order.push_back(static_cast<int>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const Rank left = RankOf(candidates[a], goal, by_cost), right = RankOf(candidates[b], goal, by_cost);
    return left.excess != right.excess ? left.excess < right.excess : left.value < right.value;
  });
  return order;
}

// The error to expect of Candidate::total, as a share of the total: half the range of the measured rates or,
// without a measurement, half of the 90 % interval of the prediction.
double SpreadOf(const Candidate& candidate) {
  if (candidate.measured.empty()) {
    const proto::Estimate& total = candidate.prediction.total();
    return total.value() > 0 ? std::max(0.0, total.high() - total.low()) / (2 * total.value()) : 0;
  }
  if (candidate.measured.size() < 2) return 0;
  const auto [least, most] = std::minmax_element(candidate.measured.begin(), candidate.measured.end());
  return (*most - *least) / (2 * Median(candidate.measured));
}

}  // namespace

double LeastDifference(const Candidate& a, const Candidate& b) {
  const bool measured = !a.measured.empty() && !b.measured.empty();
  const double spread = measured ? std::max(SpreadOf(a), SpreadOf(b)) : std::hypot(SpreadOf(a), SpreadOf(b));
  return std::max(kSame, spread);
}

double Candidate::total() const {
  const double predicted = prediction.total().value();
  if (measured.empty()) return predicted;
  const double rate = prediction.samples_per_second().value();
  const double after_start = std::max(0.0, predicted - prediction.startup().value());
  const double steps = step_seconds > 0 ? std::min(step_seconds, after_start) : after_start;
  // The rest of the run, such as start-up and evaluations, does not depend on the rate of steps.
  return predicted - steps + steps * rate / Median(measured);
}

double Candidate::cost() const {
  const double time = prediction.total().value();
  return time > 0 ? prediction.cost().value() * total() / time : 0;
}

bool Candidate::contradicted() const {
  if (measured.empty()) return false;
  const proto::Estimate& rate = prediction.samples_per_second();
  const double ran = Median(measured);
  return rate.high() > 0 && (ran < rate.low() || ran > rate.high());
}

std::vector<int> ToVerify(const std::vector<Candidate>& candidates, const AdviceGoal& goal, int most) {
  const std::vector<int> order = Ranked(candidates, goal);
  std::vector<int> chosen;
  std::set<JobStrategy> strategies;
  const auto add = [&](int index) {
    const bool known = std::find(chosen.begin(), chosen.end(), index) != chosen.end();
    if (!known && static_cast<int>(chosen.size()) < most) chosen.push_back(index);
  };
  for (const int index : order) {
    if (strategies.insert(candidates[index].shape.strategy).second) add(index);
  }
  std::set<std::pair<JobStrategy, std::string>> uses;
  const int of_uses = static_cast<int>(chosen.size()) + (most - static_cast<int>(chosen.size()) + 1) / 2;
  for (const int index : order) {
    const Candidate& candidate = candidates[index];
    const bool first = uses.emplace(candidate.shape.strategy, candidate.use).second;
    const bool differ = !candidate.use.empty() || uses.size() > strategies.size();
    if (first && differ && static_cast<int>(chosen.size()) < of_uses) add(index);
  }
  const double reach = order.empty() ? 0 : candidates[order[0]].prediction.total().high();
  for (const int index : order) {
    if (candidates[index].prediction.total().low() <= reach) add(index);
  }
  return chosen;
}

std::vector<int> ToVerifyNext(const std::vector<Candidate>& candidates, int most) {
  std::map<std::pair<JobStrategy, std::string>, std::vector<double>> factors;
  double fastest = 0;
  for (const Candidate& candidate : candidates) {
    const double predicted = candidate.prediction.samples_per_second().value();
    if (candidate.measured.empty() || !(predicted > 0)) continue;
    const double rate = Median(candidate.measured);
    fastest = std::max(fastest, rate);
    factors[{candidate.shape.strategy, candidate.use}].push_back(rate / predicted);
  }
  std::vector<std::pair<double, int>> found;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const auto of_kind = factors.find({candidate.shape.strategy, candidate.use});
    if (!candidate.measured.empty() || !candidate.synchronous() || of_kind == factors.end()) continue;
    const double rate = candidate.prediction.samples_per_second().value() * Median(of_kind->second);
    if (rate > fastest) found.emplace_back(-rate, static_cast<int>(i));
  }
  std::sort(found.begin(), found.end());
  std::vector<int> chosen;
  for (const auto& [rate, index] : found) {
    if (static_cast<int>(chosen.size()) < most) chosen.push_back(index);
  }
  return chosen;
}

Advice Choose(const std::vector<Candidate>& candidates, const AdviceGoal& goal) {
  std::vector<int> order = Ranked(candidates, goal);
  const bool verified =
      std::any_of(order.begin(), order.end(), [&](int index) { return !candidates[index].measured.empty(); });
  std::vector<int> eligible;
  for (const int index : order) {
    if (!verified || !candidates[index].measured.empty()) eligible.push_back(index);
  }
  const bool by_cost = RanksByCost(candidates, goal);
  const auto rank_of = [&](int index) { return RankOf(candidates[index], goal, by_cost); };
  if (rank_of(eligible[0]).excess > 0 && rank_of(order[0]).excess == 0) eligible = order;
  // Among equally good candidates, the one with the fewest processes is the first.
  const Rank first = rank_of(eligible[0]);
  const auto fewest = std::min_element(eligible.begin(), eligible.end(), [&](int a, int b) {
    const auto key = [&](int index) {
      const Rank rank = rank_of(index);
      const bool same = rank.excess <= first.excess && rank.value <= first.value * (1 + kSame);
      // Among candidates with the same number of processes, a candidate that uses the host file as it is is
      // preferred.
      const int own_hosts = candidates[index].use.empty() ? 0 : 1;
      return same ? 2 * candidates[index].processes() + own_hosts : std::numeric_limits<int>::max();
    };
    return key(a) < key(b);
  });
  std::rotate(eligible.begin(), fewest, fewest + 1);
  Advice advice;
  advice.best = eligible[0];
  const Candidate& best = candidates[advice.best];
  advice.met = rank_of(advice.best).excess == 0;
  for (size_t i = 1; i < eligible.size(); ++i) {
    const Candidate& other = candidates[eligible[i]];
    const double noise = LeastDifference(best, other);
    if (advice.second < 0 && other.shape.strategy != best.shape.strategy) {
      advice.second = eligible[i];
      advice.second_differs = std::abs(other.total() / best.total() - 1) >= noise;
    }
    const Rank rank = rank_of(eligible[i]);
    const bool tied = rank.excess == 0 && rank.value < rank_of(advice.best).value * (1 + noise);
    if (i == 1 && tied) advice.tied = eligible[i];
  }
  std::vector<int> by_time = eligible;
  std::stable_sort(by_time.begin(), by_time.end(),
                   [&](int a, int b) { return candidates[a].total() < candidates[b].total(); });
  const bool priced =
      std::any_of(by_time.begin(), by_time.end(), [&](int index) { return HasCost(candidates[index]); });
  double cheapest = -1;
  for (const int index : by_time) {
    if (priced && !HasCost(candidates[index])) continue;
    const double cost = candidates[index].cost();
    if (cheapest >= 0 && cost >= cheapest) continue;
    advice.pareto.push_back(index);
    cheapest = cost;
  }
  return advice;
}

std::vector<int> NumbersUpTo(int most, int fine) {
  std::vector<int> numbers;
  for (int number = 1; number <= most; number += std::max(1, number / fine)) numbers.push_back(number);
  if (!numbers.empty() && numbers.back() != most) numbers.push_back(most);
  return numbers;
}

}  // namespace tethys
