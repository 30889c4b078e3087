#include "deploy/live/recent_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/base/quantile.h"

namespace tethys {
namespace {

// In seconds. After a longer gap between two pulses, the earlier pulses are forgotten: either the run paused,
// or the file of events leaves out pulses.
constexpr double kLongestGap = 10;
// The most machines that are read from a pulse; a damaged line may name more.
constexpr size_t kMostMachines = 4096;

bool IsTime(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

void RecentSteps::Add(const proto::Pulse& pulse) {
  Entry entry{.at = pulse.seconds(), .step_seconds = pulse.step_seconds_sum()};
  for (const int64_t count : pulse.step_bucket()) entry.steps += static_cast<double>(count);
  if (!IsTime(entry.at) || !IsTime(entry.step_seconds)) return;
  const bool continues = !entries_.empty() && entry.at > entries_.back().at &&
                         entry.at - entries_.back().at <= kLongestGap && entry.steps >= entries_.back().steps;
  if (!continues) entries_.clear();
  std::vector<double> compute, exchange;
  for (const proto::TaskPulse& task : pulse.task()) {
    if (task.role() != "worker" || task.state() != proto::TaskPulse::RUNNING) continue;
    ++entry.figures.workers;
    const double computes = task.compute_seconds().median(), exchanges = task.exchange_seconds().median();
    if (!task.has_compute_seconds() || !IsTime(computes) || !IsTime(exchanges)) continue;
    compute.push_back(computes);
    exchange.push_back(exchanges);
  }
  if (entry.steps <= 0) return;
  if (!compute.empty()) {
    entry.figures.median_compute = Median(compute);
    entry.figures.slowest_compute = *std::max_element(compute.begin(), compute.end());
    entry.figures.median_exchange = Median(exchange);
    entry.figures.least_exchange = *std::min_element(exchange.begin(), exchange.end());
  }
  for (const proto::MachinePulse& machine : pulse.machine()) {
    const double others = machine.cpu_percent() - machine.job_cpu_percent();
    if (machine.cores() > 0 && std::isfinite(others) && entry.others.size() < kMostMachines) {
      entry.others[machine.host()] = std::clamp(others / (100.0 * machine.cores()), 0.0, 1.0);
    }
  }
  entries_.push_back(std::move(entry));
  while (entries_.size() > kMostEntries || entries_.back().at - entries_.front().at > kSeconds) {
    entries_.pop_front();
  }
}

absl::optional<StepFigures> RecentSteps::Figures() const {
  if (entries_.size() < 2) return absl::nullopt;
  const Entry& first = entries_.front();
  const Entry& last = entries_.back();
  const double steps = last.steps - first.steps, seconds = last.step_seconds - first.step_seconds;
  if (last.at - first.at < kLeastSeconds || steps < kLeastSteps || !(seconds > 0)) return absl::nullopt;
  StepFigures found;
  found.step = seconds / steps;
  found.workers = last.figures.workers;
  std::vector<double> median_compute, slowest_compute, median_exchange, least_exchange;
  std::map<std::string, double> others;
  for (size_t i = 1; i < entries_.size(); ++i) {
    const StepFigures& figures = entries_[i].figures;
    const double length = entries_[i].at - entries_[i - 1].at;
    for (const auto& [host, share] : entries_[i].others) others[host] += share * length;
    if (figures.slowest_compute <= 0) continue;  // Skips a second in which no step ended.
    median_compute.push_back(figures.median_compute);
    slowest_compute.push_back(figures.slowest_compute);
    median_exchange.push_back(figures.median_exchange);
    least_exchange.push_back(figures.least_exchange);
  }
  found.median_compute = Median(median_compute);
  found.slowest_compute = Median(slowest_compute);
  found.median_exchange = Median(median_exchange);
  found.least_exchange = Median(least_exchange);
  for (const auto& [host, sum] : others) {
    const double share = sum / (last.at - first.at);
    if (share <= found.others_cpu) continue;
    found.others_cpu = share;
    found.others_host = host;
  }
  return found;
}

}  // namespace tethys
