#include "runtime/chief/lease_book.h"

#include <algorithm>

namespace tethys {

std::vector<BatchLease> SingleBatches(Slice segment, int64_t batch) {
  std::vector<BatchLease> batches;
  for (int64_t at = segment.begin; at < segment.end; at += batch) {
    const Slice positions{at, std::min(at + batch, segment.end)};
    batches.push_back({positions, positions});
  }
  return batches;
}

std::vector<BatchLease> BatchesOfSteps(Slice segment, int64_t global_batch, int workers) {
  std::vector<BatchLease> batches;
  for (const BatchLease& step : SingleBatches(segment, global_batch)) {
    for (int rank = 0; rank < workers; ++rank) {
      const Slice positions = SplitSlice(step.positions, rank, workers);
      if (positions.count() > 0) batches.push_back({positions, step.positions});
    }
  }
  return batches;
}

void LeaseBook::Open(const std::vector<BatchLease>& batches) {
  TETHYS_CHECK(free_.empty() && held_.empty());
  free_.assign(batches.begin(), batches.end());
  dealt_end_ = batches.empty() ? 0 : batches.front().positions.begin;
  closed_ = false;
}

int64_t LeaseBook::CutToDealt() {
  std::erase_if(free_, [this](const BatchLease& batch) { return batch.positions.begin >= dealt_end_; });
  return dealt_end_;
}

BatchLease LeaseBook::TakeFree() {
  BatchLease batch = free_.front();
  free_.pop_front();
  dealt_end_ = std::max(dealt_end_, batch.positions.end);
  return batch;
}

void LeaseBook::Leave(int worker) {
  const auto dealt = dealt_.find(worker);
  if (dealt == dealt_.end()) return;
  for (auto lease = dealt->second.rbegin(); lease != dealt->second.rend(); ++lease) {
    if (lease->positions.count() > 0) free_.push_front(*lease);
  }
  dealt_.erase(dealt);
}

void LeaseBook::DealRound() {
  for (auto& [worker, batches] : dealt_) {
    // The last round may have fewer batches than workers. The remaining workers get steps without samples,
    // which belong to the global batch of the round.
    BatchLease lease;
    if (!free_.empty()) {
      lease = TakeFree();
    } else {
      lease.step = dealt_.begin()->second.back().step;
      lease.positions = {lease.step.end, lease.step.end};
    }
    lease.clock = next_round_;
    batches.push_back(lease);
  }
  ++next_round_;
}

LeaseBook::Leases LeaseBook::Lease(int worker, int batches) {
  const auto dealt = dealt_.find(worker);
  if (dealt == dealt_.end()) return {.batches = {}, .last = true};
  std::deque<BatchLease>& mine = dealt->second;
  int64_t count = batches;
  if (in_rounds_) {
    while (!closed_ && !free_.empty() && static_cast<int>(mine.size()) < batches) DealRound();
  } else if (!closed_) {
    const auto left = static_cast<int64_t>(free_.size());
    const int64_t fair = std::max<int64_t>(1, left / (2 * static_cast<int64_t>(dealt_.size())));
    for (count = std::min<int64_t>({count, fair, left}); static_cast<int64_t>(mine.size()) < count;) {
      mine.push_back(TakeFree());
    }
  }
  Leases leases;
  for (; !mine.empty() && count > 0; --count) {
    const BatchLease& lease = mine.front();
    if (lease.positions.count() > 0) held_[lease.positions.begin] = {worker, lease, {}};
    leases.batches.push_back(lease);
    mine.pop_front();
  }
  leases.last = mine.empty() && (closed_ || free_.empty());
  if (leases.last) closed_ = true;
  return leases;
}

absl::Status LeaseBook::Use(int worker, Slice positions) {
  if (positions.count() == 0) return absl::OkStatus();
  const auto held = held_.find(positions.begin);
  if (held == held_.end() || held->second.worker != worker || held->second.lease.positions != positions) {
    return absl::FailedPreconditionError(absl::StrCat("worker ", worker, " reports positions [",
                                                      positions.begin, ", ", positions.end,
                                                      ") as used, for which it holds no lease"));
  }
  held_.erase(held);
  return absl::OkStatus();
}

void LeaseBook::Applied(int server, Slice positions) {
  const auto held = held_.find(positions.begin);
  if (held != held_.end() && held->second.lease.positions == positions) {
    held->second.servers.push_back(server);
  }
}

LeaseBook::Settlement LeaseBook::Settle(int worker, int servers) {
  Settlement settlement;
  // The loop runs backwards, so that returned batches precede the other free batches and stay in order.
  for (auto held = held_.end(); held != held_.begin();) {
    --held;
    if (held->second.worker != worker) continue;
    const BatchLease& lease = held->second.lease;
    const auto applied = static_cast<int>(held->second.servers.size());
    if (applied == servers) {
      settlement.applied.push_back(lease.positions);
    } else if (applied > 0) {
      settlement.torn.push_back({lease.positions, held->second.servers});
    } else {
      free_.push_front(lease);
      ++settlement.returned;
    }
    held = held_.erase(held);
  }
  return settlement;
}

}  // namespace tethys
