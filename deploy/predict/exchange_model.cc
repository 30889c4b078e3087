#include "deploy/predict/exchange_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "collectives/block_cut.h"
#include "collectives/ring_options.h"

namespace tethys {
namespace {

constexpr double kFloatBytes = sizeof(float);

double WorkSeconds(const ComputerWork& work, const proto::ExchangeCost& cost) {
  const double seconds = (work.bytes * cost.cpu_per_byte() + work.messages * cost.cpu_per_message()) /
                         std::max(1.0, work.capacity);
  return std::max(seconds * work.unthrottled, seconds * work.slowness - work.spared);
}

const ComputerWork* Busiest(const ExchangeNeeds& needs, const proto::ExchangeCost& cost) {
  const auto busiest = std::max_element(needs.work.begin(), needs.work.end(),
                                        [&](const ComputerWork& a, const ComputerWork& b) {
                                          return WorkSeconds(a, cost) < WorkSeconds(b, cost);
                                        });
  return busiest == needs.work.end() ? nullptr : &*busiest;
}

}  // namespace

ExchangeNeeds Scaled(ExchangeNeeds needs, double share) {
  needs.link *= share;
  needs.chain *= share;
  needs.loop_bytes *= share;
  for (ComputerWork& work : needs.work) {
    work.bytes *= share;
    work.messages *= share;
    work.spared *= share;
  }
  return needs;
}

double Norm(const std::vector<ResourceTime>& times, double p) {
  double largest = 0;
  for (const ResourceTime& time : times) largest = std::max(largest, time.seconds);
  if (largest <= 0) return 0;
  double sum = 0;
  // Times are divided by the largest, so that no power overflows.
  for (const ResourceTime& time : times) sum += std::pow(time.seconds / largest, p);
  return largest * std::pow(sum, 1 / p);
}

ExchangeTime TimeOf(const ExchangeNeeds& needs, const proto::ExchangeCost& cost) {
  const ComputerWork* busiest = Busiest(needs, cost);
  const std::string link = absl::StrCat("link of ", needs.link_name);
  const std::string cpu = absl::StrCat("CPU of exchange on ", busiest == nullptr ? "" : busiest->name);
  const double work = ExchangeWork(needs, cost);
  const double fairness = needs.shared ? std::max(1.0, cost.fairness()) : 1;
  ExchangeTime time;
  for (const ResourceTime& one : {ResourceTime{link, needs.link * fairness + needs.delay},
                                  {cpu, work},
                                  {"server loop", needs.loop_bytes * cost.loop_per_byte()}}) {
    if (one.seconds > 0) time.alone.push_back(one);
  }
  const double p = std::max(1.0, cost.norm());
  const double norm = Norm(time.alone, p);
  const double chain = needs.chain + needs.chain_work * work;
  time.seconds = std::max(norm, chain);
  for (const ResourceTime& one : time.alone) {
    double share = norm * std::pow(one.seconds / norm, p);
    if (chain > norm)
      share = one.resource == link ? needs.chain : one.resource == cpu ? chain - needs.chain : 0;
    time.shares.push_back({one.resource, share});
  }
  return time;
}

double ExchangeWork(const ExchangeNeeds& needs, const proto::ExchangeCost& cost) {
  const ComputerWork* work = Busiest(needs, cost);
  return work == nullptr ? 0 : WorkSeconds(*work, cost);
}

proto::ExchangeCost CostOf(const proto::Calibration& calibration, const std::string& transport) {
  for (const proto::ExchangeCost& cost : calibration.exchange()) {
    if (cost.transport() == transport) return cost;
  }
  return UsualCost(transport);
}

proto::ExchangeCost UsualCost(const std::string& transport) {
  proto::ExchangeCost cost;
  cost.set_transport(transport);
  cost.set_fairness(1);
  cost.set_norm(1);
  cost.set_step_overhead(5e-5);
  if (transport == kLocal) {
    cost.set_sample_overhead(1e-7);
    return cost;
  }
  const bool in_memory = transport == kSharedMemory;
  cost.set_cpu_per_byte(in_memory ? 3e-10 : 2e-9);
  cost.set_cpu_per_message(in_memory ? 5e-6 : 1e-5);
  cost.set_norm(4);
  if (transport != kServers) return cost;
  cost.set_cpu_per_message(3e-5);
  cost.set_loop_per_byte(5e-10);
  cost.set_fairness(1.04);
  return cost;
}

ExchangeNeeds RingNeeds(int64_t bytes, int n, const LinkOffer& link) {
  ExchangeNeeds needs{.transport = kRing};
  const auto size = static_cast<double>(bytes);
  const double ranks = n;
  ComputerWork work;
  if (size <= kDirectElements * kFloatBytes) {
    work.bytes = 2 * (ranks - 1) * size;
    work.messages = 2 * (ranks - 1);
    needs.delay = link.delay;
    if (link.rate > 0) needs.link = std::max(0.0, (ranks - 1) * size - link.burst) / link.rate;
  } else {
    const double moved = 2 * (ranks - 1) / ranks * size;
    const double block = size / ranks;
    const double chunk = std::min(block, kChunkElements * kFloatBytes);
    work.bytes = 2 * moved;
    work.messages = 4 * (ranks - 1) * std::ceil(block / chunk);
    needs.delay = link.delay;
    // A rank passes a chunk on as soon as the chunk has been received and added. So the ranks process the
    // chunks of a block as a pipeline, and per hop only the work on one chunk lies in the chain.
    needs.chain_work = chunk / block;
    if (link.rate > 0) {
      const double window = static_cast<double>(RingOptions().send_buffer_bytes);
      const double delay = std::max(link.delay, link.longest_delay);
      const double rate = delay > 0 ? std::min(link.rate, window / (2 * delay)) : link.rate;
      const double hop_rate = link.hop_rate > 0 ? link.hop_rate : rate;
      needs.link = std::max(0.0, moved - link.burst) / rate;
      const double hops = 2 * (ranks - 1);
      needs.chain = std::max(0.0, hops * (link.delay + chunk / hop_rate) - link.burst / rate);
    }
  }
  needs.work.push_back(work);
  return needs;
}

}  // namespace tethys
