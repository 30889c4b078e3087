#include "deploy/predict/advice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "runtime/base/quantile.h"

namespace tethys {
namespace {

constexpr double kSame = 0.03;  // Closer candidates are equally good.

// How far a candidate is from the goal, and then what it is ranked by; less is better.
struct Rank {
  double excess = 0;  // The sum of the ratios by which time exceeds the deadline and cost the budget.
  double value = 0;
};

bool HasCost(const Candidate& candidate) { return candidate.cost() > 0; }

// With a deadline, what counts within it is the cost, if that of all synchronous candidates is known.
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

// Half the range of a candidate's measured rates, as a share of their median.
double SpreadOf(const Candidate& candidate) {
  if (candidate.measured.size() < 2) return 0;
  const auto [least, most] = std::minmax_element(candidate.measured.begin(), candidate.measured.end());
  return (*most - *least) / (2 * Median(candidate.measured));
}

}  // namespace

double Candidate::total() const {
  const double predicted = prediction.total().value();
  if (measured.empty()) return predicted;
  const double rate = prediction.samples_per_second().value();
  const double epochs = std::max(0.0, predicted - prediction.startup().value());
  // Start-up does not depend on the rate of steps.
  return predicted - epochs + epochs * rate / Median(measured);
}

double Candidate::cost() const {
  const double time = prediction.total().value();
  return time > 0 ? prediction.cost().value() * total() / time : 0;
}

std::vector<int> ToVerify(const std::vector<Candidate>& candidates, const AdviceGoal& goal, int most) {
  const std::vector<int> order = Ranked(candidates, goal);
  std::vector<int> chosen;
  std::set<std::string> strategies;
  const auto add = [&](int index) {
    const bool known = std::find(chosen.begin(), chosen.end(), index) != chosen.end();
    if (!known && static_cast<int>(chosen.size()) < most) chosen.push_back(index);
  };
  for (const int index : order) {
    if (strategies.insert(candidates[index].strategy).second) add(index);
  }
  const double reach = order.empty() ? 0 : candidates[order[0]].prediction.total().high();
  for (const int index : order) {
    if (candidates[index].prediction.total().low() <= reach) add(index);
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
  Advice advice;
  advice.best = eligible[0];
  const Candidate& best = candidates[advice.best];
  advice.met = rank_of(advice.best).excess == 0;
  for (size_t i = 1; i < eligible.size(); ++i) {
    const Candidate& other = candidates[eligible[i]];
    if (advice.second < 0 && other.strategy != best.strategy) advice.second = eligible[i];
    const double noise = std::max({kSame, SpreadOf(best), SpreadOf(other)});
    const Rank rank = rank_of(eligible[i]);
    if (i == 1) advice.tied = rank.excess == 0 && rank.value < rank_of(advice.best).value * (1 + noise);
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
