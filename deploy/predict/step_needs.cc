#include "deploy/predict/step_needs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "ps/message_plan.h"

namespace tethys {
namespace {

constexpr double kLowerQuartile = 0.25;

// Builds the needs of one step (StepNeeds), part by part.
class NeedsBuilder {
 public:
  NeedsBuilder(const proto::JobPlan& plan, const Model& model, const JobMachines& machines,
               const JobComputers& computers)
      : plan_(plan), model_(model), machines_(machines), computers_(computers) {}

  absl::StatusOr<StepNeeds> Build() {
    const ExchangeKind kind = ExchangeOf(plan_, machines_.workers);
    AddCompute(kind);
    switch (kind) {
      case ExchangeKind::kNone:
        needs_.transport = kLocal;
        return needs_;
      case ExchangeKind::kServers:
        needs_.transport = kServers;
        TETHYS_RETURN_IF_ERROR(AddServers());
        return needs_;
      case ExchangeKind::kDevices:
        return absl::UnimplementedError(
            "steps with an exchange among GPUs are not predicted: measure them by tethys train or tethys "
            "compare");
      default:
        needs_.transport = kind == ExchangeKind::kSharedMemory ? kSharedMemory : kRing;
        TETHYS_RETURN_IF_ERROR(AddBuckets(kind));
        return needs_;
    }
  }

 private:
  void AddCompute(ExchangeKind kind) {
    const JobComputer* slowest = nullptr;
    for (const JobComputer& computer : computers_.computers()) {
      if (computer.workers == 0) continue;
      const auto batch = static_cast<double>(plan_.batch_per_worker());
      const proto::BatchTime time = computer.curve.At(batch);
      const double slowdown = computer.workers / CapacityOf(*computer.calibration, computer.workers);
      // Servers update the parameters, so workers do not.
      const double update = kind == ExchangeKind::kServers ? std::min(time.update(), time.step() / 2) : 0;
      const double compute = (time.step() - update) * slowdown;
      needs_.extrapolated = needs_.extrapolated || computer.curve.extrapolated(batch);
      if (slowest != nullptr && compute <= needs_.compute) continue;
      slowest = &computer;
      needs_.compute = compute;
      needs_.samples = batch * slowdown * computer.slowness;
      needs_.compute_name = computer.name;
      const double backward_end = (time.forward() + time.backward()) * slowdown;
      needs_.backward_end = backward_end > 0 ? std::min(backward_end, compute) : compute;
      ready_.clear();
      if (time.ready_size() != static_cast<int>(model_.ready_order().size())) continue;
      for (const double ready : time.ready())
        ready_.push_back(std::min(ready * slowdown, needs_.backward_end));
    }
    if (slowest == nullptr) return;
    const auto& ratio = slowest->calibration->step_ratio();
    const double workers = plan_.job().workers();
    const double base = StragglerQuantile(ratio, 1, kLowerQuartile);
    if (base <= 0) return;
    needs_.straggler = StragglerQuantile(ratio, workers, kLowerQuartile) / base;
  }

  double ReadyOf(int64_t range) const {
    return range < static_cast<int64_t>(ready_.size()) ? ready_[range] : needs_.backward_end;
  }

  // The work of one all-reduce on each computer, given the work of one rank. `leaders`: only one rank of each
  // host takes part.
  std::vector<ComputerWork> WorkOfRanks(const ComputerWork& of_rank, bool leaders) const {
    std::vector<ComputerWork> work;
    for (size_t i = 0; i < computers_.computers().size(); ++i) {
      const JobComputer& computer = computers_.computers()[i];
      int ranks = computer.workers;
      if (leaders) {
        ranks = 0;
        for (const auto& [host, count] : WorkersByHost())
          ranks += computers_.computer_of(host) == static_cast<int>(i);
      }
      if (ranks == 0) continue;
      work.push_back({.name = computer.name,
                      .bytes = of_rank.bytes * ranks,
                      .messages = of_rank.messages * ranks,
                      .capacity = CapacityOf(*computer.calibration, ranks),
                      .slowness = computer.slowness,
                      .unthrottled = computer.slowness});
    }
    return work;
  }

  std::map<int, int> WorkersByHost() const {
    std::map<int, int> by_host;
    for (const int host : machines_.workers) ++by_host[host];
    return by_host;
  }

  absl::Status AddBuckets(ExchangeKind kind) {
    TETHYS_ASSIGN_OR_RETURN(const std::vector<BucketForecast> buckets, ForecastBuckets(plan_, model_));
    const std::map<int, int> by_host = WorkersByHost();
    int most = 0;
    std::vector<int> hosts;
    for (const auto& [host, ranks] : by_host) {
      most = std::max(most, ranks);
      hosts.push_back(host);
    }
    LinkOffer link;
    std::string link_name;
    for (const int host : hosts) {
      TETHYS_ASSIGN_OR_RETURN(const LinkOffer offer, computers_.LinkOf(host, hosts));
      if (link.rate > 0 && (offer.rate <= 0 || offer.rate >= link.rate)) continue;
      link = offer;
      link_name = machines_.hosts[host];
    }
    TETHYS_RETURN_IF_ERROR(AddHops(hosts, link));
    for (const BucketForecast& bucket : buckets) {
      ExchangePart part{.ready = ReadyOf(bucket.last_ready), .exchange = {}};
      if (kind != ExchangeKind::kRing) {
        ComputerWork rank;
        rank.bytes = static_cast<double>(SharedMemoryBytes(bucket.bytes, most));
        // Leaders also hand the sum of all hosts to the ranks of their host.
        if (kind == ExchangeKind::kHierarchical) rank.bytes += static_cast<double>(bucket.bytes);
        // The waits of a rank for the other ranks of its host count as messages.
        rank.messages = kind == ExchangeKind::kHierarchical ? 3 : 2;
        part.exchange.push_back({.transport = kSharedMemory, .work = WorkOfRanks(rank, false)});
      }
      if (kind != ExchangeKind::kSharedMemory) {
        const bool leaders = kind == ExchangeKind::kHierarchical;
        const int ranks = leaders ? static_cast<int>(hosts.size()) : plan_.job().workers();
        ExchangeNeeds ring = RingNeeds(bucket.bytes, ranks, link);
        ring.link_name = link_name;
        ring.work = WorkOfRanks(ring.work.front(), leaders);
        part.exchange.push_back(ring);
      }
      needs_.parts.push_back(std::move(part));
    }
    return absl::OkStatus();
  }

  // Sets the delays and the hop rate of `link` from the hops around a ring of `hosts`, in this order. A slow
  // link is part of one or two hops.
  absl::Status AddHops(const std::vector<int>& hosts, LinkOffer& link) const {
    if (hosts.size() < 2 || link.rate <= 0) return absl::OkStatus();
    double delays = 0, per_byte = 0;
    for (size_t i = 0; i < hosts.size(); ++i) {
      TETHYS_ASSIGN_OR_RETURN(const LinkOffer hop,
                              computers_.LinkOf(hosts[i], {hosts[(i + 1) % hosts.size()]}));
      link.longest_delay = std::max(link.longest_delay, hop.delay);
      delays += hop.delay;
      per_byte += 1 / std::max(hop.rate, link.rate);
    }
    link.delay = delays / static_cast<double>(hosts.size());
    link.hop_rate = static_cast<double>(hosts.size()) / per_byte;
    return absl::OkStatus();
  }

  // The bytes that the links of a host carry in one direction in a step. Outgoing bytes are the pushes of the
  // host's workers to servers on other hosts, and the parameters that the host's servers send to workers on
  // other hosts. As many bytes come in.
  double LinkBytes(int host) const {
    double bytes = 0;
    for (const int worker : machines_.workers) {
      for (size_t s = 0; s < machines_.servers.size(); ++s) {
        const int server = machines_.servers[s];
        if (worker == server || (worker != host && server != host)) continue;
        bytes += static_cast<double>(needs_.pushes[s].bytes);
      }
    }
    return bytes;
  }

  absl::Status AddServers() {
    TETHYS_ASSIGN_OR_RETURN(needs_.pushes, ForecastPushes(plan_, model_, machines_.on_loopback));
    if (needs_.pushes.size() > machines_.servers.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the plan places shards on ", needs_.pushes.size(),
                                                     " servers, but only ", machines_.servers.size(),
                                                     " servers have machines"));
    }
    needs_.pushes.resize(machines_.servers.size());
    ExchangeNeeds all{.transport = kServers};
    all.shared = machines_.workers.size() > 1;
    for (size_t s = 0; s < needs_.pushes.size(); ++s) {
      const JobComputer& computer = computers_.computers()[computers_.computer_of(machines_.servers[s])];
      all.loop_bytes = std::max(all.loop_bytes, static_cast<double>(needs_.pushes[s].bytes) *
                                                    plan_.job().workers() * Unthrottled(computer));
    }
    TETHYS_RETURN_IF_ERROR(AddServerLinks(all));
    AddServerWork(all);
    SpreadOverRanges(all);
    return absl::OkStatus();
  }

  absl::Status AddServerLinks(ExchangeNeeds& all) const {
    double message = 0, most_messages = 0;
    for (const PushForecast& push : needs_.pushes) {
      message = std::max(message, static_cast<double>(push.last_message_bytes));
      most_messages = std::max(most_messages, static_cast<double>(push.messages));
    }
    TETHYS_ASSIGN_OR_RETURN(const std::vector<LinkOffer> links, computers_.OwnLinks());
    for (size_t i = 0; i < links.size(); ++i) {
      const int host = computers_.used_hosts()[i];
      const LinkOffer& link = links[i];
      const double bytes = LinkBytes(host);
      if (bytes <= 0 || link.rate <= 0) continue;
      const double seconds = std::max(0.0, bytes + message - link.burst) / link.rate;
      all.delay = std::max(all.delay, 2 * link.delay);
      const double windows = std::ceil(most_messages / kMessageWindow);
      all.chain = std::max(all.chain, windows * (2 * link.delay + message / link.rate));
      if (seconds <= all.link) continue;
      all.link = seconds;
      all.link_name = machines_.hosts[host];
    }
    return absl::OkStatus();
  }

  // The slowness of a computer for work with pauses: a host that runs only servers gathers CPU quota while
  // workers compute.
  static double Unthrottled(const JobComputer& computer) {
    const double quota = computer.calibration->cpu_quota();
    if (quota <= 0 || quota >= 1 || computer.workers > 0) return computer.slowness;
    return std::max(1.0, computer.slowness * quota);
  }

  void AddServerWork(ExchangeNeeds& all) const {
    double bytes = 0, messages = 0;
    for (const PushForecast& push : needs_.pushes) {
      bytes += static_cast<double>(push.bytes);
      messages += static_cast<double>(push.messages);
    }
    const double workers = plan_.job().workers();
    for (size_t i = 0; i < computers_.computers().size(); ++i) {
      const JobComputer& computer = computers_.computers()[i];
      // The factor 2: gradients move in one direction, and as many bytes of parameters in the other
      // direction.
      ComputerWork work{.name = computer.name,
                        .bytes = 2 * bytes * computer.workers,
                        .messages = 2 * messages * computer.workers,
                        .capacity = CapacityOf(*computer.calibration, computer.processes()),
                        .slowness = computer.slowness,
                        .unthrottled = Unthrottled(computer),
                        .spared = computer.workers > 0 ? 0 : needs_.compute};
      for (size_t s = 0; s < machines_.servers.size(); ++s) {
        if (computers_.computer_of(machines_.servers[s]) != static_cast<int>(i)) continue;
        work.bytes += 2 * workers * static_cast<double>(needs_.pushes[s].bytes);
        work.messages += 2 * workers * static_cast<double>(needs_.pushes[s].messages);
      }
      all.work.push_back(work);
    }
  }

  // Divides the exchange into parts, one for each range of gradients that become ready at one time, because
  // gradients are pushed as they become ready.
  void SpreadOverRanges(const ExchangeNeeds& all) {
    const std::vector<Range> order = model_.ready_order();
    double elements = 0;
    for (const Range& range : order) elements += static_cast<double>(range.count);
    for (size_t i = 0; i < order.size(); ++i) {
      ExchangeNeeds part = Scaled(all, static_cast<double>(order[i].count) / std::max(1.0, elements));
      if (i + 1 < order.size()) part.delay = 0;  // The delay is paid once, by the last part.
      const double ready = ReadyOf(static_cast<int64_t>(i));
      // Ranges that are ready at the same time are one part.
      if (!needs_.parts.empty() && needs_.parts.back().ready == ready) {
        ExchangeNeeds& last = needs_.parts.back().exchange.back();
        last.link += part.link;
        last.delay += part.delay;
        last.chain += part.chain;
        last.loop_bytes += part.loop_bytes;
        for (size_t c = 0; c < last.work.size(); ++c) {
          last.work[c].bytes += part.work[c].bytes;
          last.work[c].messages += part.work[c].messages;
          last.work[c].spared += part.work[c].spared;
        }
        continue;
      }
      needs_.parts.push_back({ready, {part}});
    }
  }

  const proto::JobPlan& plan_;
  const Model& model_;
  const JobMachines& machines_;
  const JobComputers& computers_;
  std::vector<double> ready_;
  StepNeeds needs_;
};

void Add(std::vector<ResourceTime>& times, const std::string& resource, double seconds) {
  for (ResourceTime& time : times) {
    if (time.resource != resource) continue;
    time.seconds += seconds;
    return;
  }
  times.push_back({resource, seconds});
}

}  // namespace

absl::StatusOr<StepNeeds> NeedsOfStep(const proto::JobPlan& plan, const Model& model,
                                      const JobMachines& machines, const JobComputers& computers) {
  return NeedsBuilder(plan, model, machines, computers).Build();
}

double ComputeSeconds(const StepNeeds& needs, const proto::Calibration& costs) {
  return needs.compute + needs.samples * CostOf(costs, kLocal).sample_overhead();
}

StepTime LockStepTime(const StepNeeds& needs, const proto::Calibration& costs, bool mean) {
  double end = 0, work = 0, all = 0;
  std::vector<ResourceTime> shares, alone;
  for (const ExchangePart& part : needs.parts) {
    double seconds = 0;
    for (const ExchangeNeeds& exchange : part.exchange) {
      const proto::ExchangeCost cost = CostOf(costs, exchange.transport);
      const ExchangeTime time = TimeOf(exchange, cost);
      for (const ResourceTime& share : time.shares) Add(shares, share.resource, share.seconds);
      for (const ResourceTime& one : time.alone) Add(alone, one.resource, one.seconds);
      seconds += time.seconds;
      work += ExchangeWork(exchange, cost);
    }
    all += seconds;
    end = std::max(part.ready, end) + seconds;
  }
  StepTime result;
  const proto::ExchangeCost cost = CostOf(costs, needs.transport);
  const double compute = ComputeSeconds(needs, costs) * needs.straggler;
  const double overhead = cost.step_overhead();
  // Even if the exchange overlaps the backward pass entirely, the step is longer by the CPU time of the
  // exchange.
  result.exposed = std::max({0.0, end - needs.backward_end, std::min(work, all)});
  result.seconds = compute + result.exposed + overhead;
  result.shares = {{absl::StrCat("compute on ", needs.compute_name), compute}, {"overhead", overhead}};
  result.alone = result.shares;
  for (size_t i = 0; i < shares.size(); ++i) {
    result.shares.push_back({shares[i].resource, all > 0 ? shares[i].seconds * result.exposed / all : 0});
    result.alone.push_back(alone[i]);
  }
  if (!mean) return result;
  const double ratio = std::max(1.0, cost.mean_ratio());
  result.seconds *= ratio;
  result.exposed *= ratio;
  for (std::vector<ResourceTime>* times : {&result.shares, &result.alone}) {
    for (ResourceTime& time : *times) time.seconds *= ratio;
  }
  return result;
}

}  // namespace tethys
