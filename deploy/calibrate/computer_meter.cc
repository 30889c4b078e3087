#include "deploy/calibrate/computer_meter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/sweep/batch_time.h"
#include "deploy/sweep/meter.h"
#include "runtime/base/clock.h"
#include "runtime/base/quantile.h"

namespace tethys {
namespace {

constexpr int64_t kVisitMilliseconds = 20;
// The length of a visit (a measurement of consecutive steps, StepVisit) by several ranks at once. A visit is
// longer than a time slice of the scheduler, so that ranks that share a core take turns within a visit.
constexpr int64_t kSharedMilliseconds = 100;
// Under a quota of CPU time, a visit spans several of the periods (0.1 s) for which the kernel grants CPU
// time.
constexpr int64_t kQuotaMilliseconds = 250;
constexpr int kRounds = 5;
constexpr int kMostBatches = 7;

// A computer while it is measured.
struct Metered {
  bool has_quota() const { return result.cpu_quota() > 0; }

  proto::ComputerCalibration result;
  std::vector<const MeteredHost*> hosts;
  int slots = 0;
  // Computers with the same kernel are measured one after the other. `turn` is the number of these computers
  // that are measured before this computer.
  int turn = 0;
  // The first meter also measures the step time of one rank alone.
  std::vector<std::unique_ptr<Meter>> meters;
  // The visits of the first meter while it measures alone, by batch.
  std::map<int64_t, std::vector<proto::StepVisit>> alone;
  // The throughput of several ranks divided by the throughput of one rank, by number of ranks.
  std::map<int, std::vector<double>> capacity;
  std::set<int64_t> too_large;
  std::string reason;  // Why the last batch in too_large could not be measured.
};

double StepsPerSecond(const proto::StepVisit& visit) {
  return visit.seconds() > 0 ? visit.steps() / visit.seconds() : 0;
}

class Measurement {
 public:
  explicit Measurement(const ComputerRequest& request) : request_(request) {}

  absl::StatusOr<std::vector<proto::ComputerCalibration>> Run() {
    TETHYS_RETURN_IF_ERROR(FindComputers());
    for (Metered& computer : computers_) TETHYS_RETURN_IF_ERROR(AddMeters(computer));
    const Nanoseconds end = clock_.Now() + static_cast<Nanoseconds>(request_.seconds * kSecond);
    for (int round = 0; round < kRounds && (round == 0 || clock_.Now() < end); ++round) {
      TETHYS_RETURN_IF_ERROR(MeasureAlone());
      TETHYS_RETURN_IF_ERROR(MeasureTogether());
    }
    std::vector<proto::ComputerCalibration> results;
    for (Metered& computer : computers_) {
      TETHYS_RETURN_IF_ERROR(Conclude(computer));
      results.push_back(std::move(computer.result));
    }
    return results;
  }

 private:
  absl::StatusOr<std::unique_ptr<Meter>> StartMeter(const MeteredHost& host, int gpu) {
    proto::JobPlan plan = request_.plan;
    plan.mutable_job()->mutable_device()->set_kind(host.device);
    absl::StatusOr<std::unique_ptr<Meter>> meter =
        Meter::Start(host.place, plan,
                     {.scratch = request_.scratch,
                      .name = absl::StrCat("calibrate-", ++meters_),
                      .gpu = gpu,
                      .cuda_library_path = request_.cuda_library_path});
    return meter.ok() ? std::move(meter) : Annotate(meter.status(), absl::StrCat("host ", host.host));
  }

  // Starts a meter on each host that may be a computer of its own: one host of each kind, and all hosts
  // without a kind.
  absl::Status FindComputers() {
    std::map<std::string, int> of_kernel;  // The number of computers of each kernel.
    std::map<std::pair<std::string, std::string>, size_t> by_group;
    std::set<std::string> kinds;
    for (const MeteredHost& host : request_.hosts) {
      if (!host.kind.empty() && !kinds.insert(host.kind).second) continue;
      TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Meter> meter, StartMeter(host, 0));
      const proto::MeterFacts& facts = meter->facts();
      const auto [known, added] =
          by_group.emplace(std::pair(facts.boot_id(), facts.cpu_group()), computers_.size());
      if (added) {
        Metered& computer = computers_.emplace_back();
        computer.turn = of_kernel[facts.boot_id()]++;
        turns_ = std::max(turns_, computer.turn + 1);
        computer.result.set_cpu_quota(facts.cpu_quota());
        computer.result.set_cpu_group(facts.cpu_group());
        computer.result.set_boot_id(facts.boot_id());
        computer.result.set_kind(host.kind);
        computer.result.set_device(facts.device());
        computer.result.set_cores(facts.cores());
        computer.result.set_memory_bytes(facts.free_bytes());
      }
      Metered& computer = computers_[known->second];
      computer.result.add_host(host.host);
      computer.hosts.push_back(&host);
      computer.slots += host.slots;
      computer.meters.push_back(std::move(meter));
    }
    return absl::OkStatus();
  }

  // Starts meters until there is one for each of the ranks that are measured together. The meters are
  // distributed over the computer's hosts in turn.
  absl::Status AddMeters(Metered& computer) {
    const std::vector<int> ranks = RanksToMeasure(computer.result.cores(), computer.slots);
    const size_t most = ranks.empty() ? 1 : ranks.back();
    for (size_t i = computer.meters.size(); i < most; ++i) {
      const MeteredHost& host = *computer.hosts[i % computer.hosts.size()];
      TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Meter> meter,
                              StartMeter(host, static_cast<int>(i / computer.hosts.size())));
      computer.meters.push_back(std::move(meter));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureAlone() {
    for (const int64_t batch : request_.batches) {
      for (int turn = 0; turn < turns_; ++turn) TETHYS_RETURN_IF_ERROR(MeasureAlone(batch, turn));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureAlone(int64_t batch, int turn) {
    std::vector<Meter*> meters;
    std::vector<Metered*> measured;
    int64_t milliseconds = kVisitMilliseconds;
    for (Metered& computer : computers_) {
      if (computer.turn != turn || computer.too_large.count(batch) > 0) continue;
      meters.push_back(computer.meters[0].get());
      measured.push_back(&computer);
      if (computer.has_quota()) milliseconds = kQuotaMilliseconds;
    }
    if (meters.empty()) return absl::OkStatus();
    const auto visits = StepTogether(meters, batch, milliseconds);
    for (size_t i = 0; i < visits.size(); ++i) {
      const absl::Status& status = visits[i].status();
      if (status.ok()) {
        measured[i]->alone[batch].push_back(*visits[i]);
      } else if (meters[i]->alive() &&
                 (absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status))) {
        measured[i]->too_large.insert(batch);
        measured[i]->reason = absl::StrCat("batch ", batch, ": ", status.message());
      } else {
        return Annotate(status, absl::StrCat("host ", measured[i]->result.host(0)));
      }
    }
    return absl::OkStatus();
  }

  // Measures the throughput of several ranks at once. Ranks that share a computer take turns on its cores, so
  // the steps of all ranks are counted together.
  absl::Status MeasureTogether() {
    std::set<int> numbers;
    for (const Metered& computer : computers_) {
      const std::vector<int> ranks = RanksToMeasure(computer.result.cores(), computer.slots);
      numbers.insert(ranks.begin(), ranks.end());
    }
    for (const int ranks : numbers) {
      for (int turn = 0; turn < turns_; ++turn) TETHYS_RETURN_IF_ERROR(MeasureTogether(ranks, turn));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureTogether(int ranks, int turn) {
    std::vector<Meter*> meters;
    std::vector<Metered*> owners;
    int64_t milliseconds = kSharedMilliseconds;
    for (Metered& computer : computers_) {
      if (computer.turn != turn) continue;
      const std::vector<int> wanted = RanksToMeasure(computer.result.cores(), computer.slots);
      if (std::find(wanted.begin(), wanted.end(), ranks) == wanted.end()) continue;
      if (computer.too_large.count(request_.shared_batch) > 0) continue;
      for (int i = 0; i < ranks; ++i) {
        meters.push_back(computer.meters[i].get());
        owners.push_back(&computer);
      }
      if (computer.has_quota()) milliseconds = kQuotaMilliseconds;
    }
    if (meters.empty()) return absl::OkStatus();
    // In a first visit of 1 ms, each rank builds its Plan (runtime/nn/plan.h), so that all ranks make steps
    // during the whole second visit.
    StepTogether(meters, request_.shared_batch, 1);
    const auto visits = StepTogether(meters, request_.shared_batch, milliseconds);
    std::map<Metered*, double> rate;
    for (size_t i = 0; i < visits.size(); ++i) {
      if (!visits[i].ok()) {
        return Annotate(visits[i].status(), absl::StrCat(ranks, " ranks that made steps at once on host ",
                                                         owners[i]->result.host(0)));
      }
      rate[owners[i]] += StepsPerSecond(*visits[i]);
    }
    for (const auto& [owner, steps_per_second] : rate) {
      const double single = StepsPerSecond(owner->alone[request_.shared_batch].back());
      if (single > 0) owner->capacity[ranks].push_back(steps_per_second / single);
    }
    return absl::OkStatus();
  }

  static absl::Status Conclude(Metered& computer) {
    proto::ComputerCalibration& result = computer.result;
    if (computer.alone.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("host ", result.host(0), ": no batch can be measured; ", computer.reason));
    }
    std::vector<std::vector<double>> ratios;
    double visits = 0;
    for (const auto& [batch, of_batch] : computer.alone) {
      *result.add_time() = computer.has_quota() ? MeanBatchTimeOf(of_batch) : BatchTimeOf(of_batch);
      for (const proto::StepVisit& visit : of_batch) {
        ++visits;
        result.set_steal(result.steal() + visit.steal());
        result.set_foreign(result.foreign() + visit.foreign());
        if (visit.disturbed() || visit.quantile_size() == 0) continue;
        const double median = visit.quantile(visit.quantile_size() / 2);
        ratios.resize(visit.quantile_size());
        for (int i = 0; i < visit.quantile_size() && median > 0; ++i) {
          ratios[i].push_back(visit.quantile(i) / median);
        }
      }
    }
    result.set_steal(result.steal() / visits);
    result.set_foreign(result.foreign() / visits);
    for (std::vector<double>& ratio : ratios) result.add_step_ratio(Median(std::move(ratio)));
    for (const auto& [ranks, capacity] : computer.capacity) {
      result.add_capacity_ranks(ranks);
      result.add_capacity(Median(capacity));
    }
    return absl::OkStatus();
  }

  const MonotonicClock clock_;
  const ComputerRequest& request_;
  std::vector<Metered> computers_;
  int turns_ = 0;
  int meters_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<proto::ComputerCalibration>> MeasureComputers(const ComputerRequest& request) {
  return Measurement(request).Run();
}

std::vector<int64_t> BatchesToMeasure(int64_t global_batch, int ranks) {
  const double least = std::max(1.0, static_cast<double>(global_batch) / std::max(1, ranks));
  const double most = 2.0 * static_cast<double>(std::max<int64_t>(1, global_batch));
  std::set<int64_t> batches;
  for (int i = 0; i < kMostBatches; ++i) {
    const double share = i / (kMostBatches - 1.0);
    batches.insert(std::llround(least * std::pow(most / least, share)));
  }
  return {batches.begin(), batches.end()};
}

std::vector<int> RanksToMeasure(int cores, int slots) {
  std::set<int> ranks;
  for (const int number : {2, cores, slots}) {
    if (number >= 2 && number <= slots) ranks.insert(number);
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace tethys
