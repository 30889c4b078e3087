// Tests leases of batches together with the sample order of an epoch. Whichever workers are lost and
// replaced, every sample must be used as often as the job's sharding says. Without losses, and with sharding
// other than GLOBAL, every worker must get only positions of its own shard.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/chief/lease_book.h"
#include "runtime/chief/segment_planner.h"
#include "runtime/cluster/sample_order.h"
#include "tests/runtime/chief/small_job.h"

namespace tethys {
namespace {

constexpr int kServers = 2;

// Acts as the chief and its workers for one epoch.
class Epoch {
 public:
  Epoch(const proto::JobPlan& plan, uint64_t seed, bool loses)
      : plan_(plan),
        planner_(plan_),
        order_(EpochOrders(OrderRulesOf(plan_)).Of(0)),
        split_(RankSplitOf(plan_)),
        random_(seed, RandomPurpose::kTest, 0),
        loses_(loses),
        book_(planner_.batches()),
        uses_(plan_.train_samples()) {
    for (int worker = 0; worker < plan_.job().workers(); ++worker) {
      book_.Join(worker);
      present_[worker] = {};
    }
    book_.Open(planner_.Batches(planner_.Next({}), plan_.job().workers()));
  }

  void Run() {
    constexpr int kMostEvents = 100'000;
    for (int event = 0; event < kMostEvents; ++event) {
      if (std::all_of(present_.begin(), present_.end(),
                      [](const auto& entry) { return entry.second.ended(); })) {
        if (!book_.has_free()) return;
        book_.Reopen();
        for (auto& [worker, state] : present_) state.last = false;
      }
      Event();
    }
    ADD_FAILURE() << "the epoch does not end";
  }

  // The number of uses of each sample.
  const std::vector<int64_t>& uses() const { return uses_; }
  // The number of positions of one rank that the worker of another rank used.
  int64_t of_others() const { return of_others_; }

 private:
  struct Worker {
    std::deque<Slice> held;
    bool last = false;
    bool ended() const { return last && held.empty(); }
  };

  uint32_t Draw(size_t bound) { return random_.NextBelow(static_cast<uint32_t>(bound)); }

  void Event() {
    if (loses_ && Draw(20) == 0) return present_.size() > 1 && Draw(2) == 0 ? Lose() : ComeBack();
    auto chosen = present_.begin();
    std::advance(chosen, Draw(present_.size()));
    auto& [worker, state] = *chosen;
    if (!state.held.empty() && Draw(3) > 0) {
      EXPECT_TRUE(book_.Use(worker, state.held.front()).ok());
      Count(worker, state.held.front());
      state.held.pop_front();
    } else if (!state.last) {
      const LeaseBook::Leases leases = book_.Lease(worker, static_cast<int>(1 + Draw(4)));
      for (const BatchLease& lease : leases.batches) state.held.push_back(lease.positions);
      state.last = leases.last;
    }
  }

  // Makes a worker lost. The first batch that the worker held may have reached any number of servers.
  void Lose() {
    auto lost = present_.begin();
    std::advance(lost, Draw(present_.size()));
    const auto [worker, state] = *lost;
    present_.erase(lost);
    lost_.insert(worker);
    book_.Leave(worker);
    if (!state.held.empty() && state.held.front().count() > 0) {
      const auto servers = static_cast<int>(Draw(kServers + 1));
      for (int server = 0; server < servers; ++server) book_.Applied(server, state.held.front());
    }
    const LeaseBook::Settlement settlement = book_.Settle(worker, kServers);
    for (const Slice positions : settlement.applied) Count(worker, positions);
    for (const LeaseBook::TornBatch& torn : settlement.torn) Count(worker, torn.positions);
  }

  void ComeBack() {
    if (lost_.empty()) return;
    const int worker = *lost_.begin();
    lost_.erase(worker);
    book_.Join(worker);
    present_[worker].last = book_.closed();
  }

  void Count(int worker, Slice positions) {
    for (int64_t position = positions.begin; position < positions.end; ++position) {
      ++uses_[(*order_)[position]];
      if (split_.PlaceOf(position).rank != worker) ++of_others_;
    }
  }

  const proto::JobPlan plan_;
  const SegmentPlanner planner_;
  const std::shared_ptr<const EpochOrder> order_;
  const RankSplit split_;
  RandomStream random_;
  const bool loses_;
  LeaseBook book_;
  std::map<int, Worker> present_;
  std::set<int> lost_;
  std::vector<int64_t> uses_;
  int64_t of_others_ = 0;
};

proto::JobPlan PlanOf(const std::string& consistency, const std::string& data, int workers, int64_t samples,
                      int64_t batch) {
  proto::JobPlan plan = Plan(absl::StrCat("workers: ", workers, " strategy { parameter_server { servers: 2 ",
                                          consistency, " {} } } data { ", data, " }"));
  plan.set_train_samples(samples);
  plan.set_batch_per_worker(batch);
  plan.set_global_batch(batch * workers);
  if (ShardingOf(plan) == proto::Data::FILE) {
    for (int file = 0; file < workers; ++file) plan.add_file_samples(file == 0 ? samples - workers + 1 : 1);
  }
  return plan;
}

const std::vector<std::string> kConsistencies = {"asynchronous", "stale_synchronous"};
const std::vector<std::string> kOrders = {"sharding: GLOBAL", "sharding: FILE",
                                          "sharding: DATA shuffle { blocks { samples: 4 window: 2 } }",
                                          "sharding: DATA shuffle { none {} }", "sharding: OFF"};

TEST(LeaseOrderTest, SamplesAreUsedAsOftenAsShardingRequiresDespiteWorkerLosses) {
  for (const std::string& consistency : kConsistencies) {
    for (const std::string& data : kOrders) {
      for (int workers = 1; workers <= 5; ++workers) {
        for (uint64_t seed = 0; seed < 20; ++seed) {
          SCOPED_TRACE(absl::StrCat(consistency, ", ", data, ", ", workers, " workers, seed ", seed));
          const int64_t samples = 40 + static_cast<int64_t>(seed);
          const proto::JobPlan plan = PlanOf(consistency, data, workers, samples, 1 + seed % 4);
          Epoch epoch(plan, seed, true);
          epoch.Run();
          const int64_t wanted = ShardingOf(plan) == proto::Data::OFF ? workers : 1;
          EXPECT_EQ(epoch.uses(), std::vector<int64_t>(samples, wanted));
        }
      }
    }
  }
}

TEST(LeaseOrderTest, WithoutWorkerLossesEachWorkerGetsOnlyPositionsOfItsOwnShard) {
  for (const std::string& consistency : kConsistencies) {
    for (const std::string& data : kOrders) {
      SCOPED_TRACE(absl::StrCat(consistency, ", ", data));
      const proto::JobPlan plan = PlanOf(consistency, data, 3, 100, 4);
      Epoch epoch(plan, 1, false);
      epoch.Run();
      if (ShardingOf(plan) != proto::Data::GLOBAL) {
        EXPECT_EQ(epoch.of_others(), 0);
      } else if (consistency == "asynchronous") {
        EXPECT_GT(epoch.of_others(), 0) << "batches go to the next worker that asks for one";
      }
    }
  }
}

}  // namespace
}  // namespace tethys
