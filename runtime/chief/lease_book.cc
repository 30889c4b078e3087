#include "runtime/chief/lease_book.h"

#include <algorithm>
#include <utility>

#include "runtime/chief/saved_values.h"

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

int64_t LeaseBook::free_count() const {
  int64_t count = 0;
  for (const auto& [owner, batches] : free_) count += static_cast<int64_t>(batches.size());
  return count;
}

void LeaseBook::Open(const std::vector<BatchLease>& batches) {
  TETHYS_CHECK(!has_free() && held_.empty());
  free_.clear();
  for (const BatchLease& batch : batches) free_[batch.owner].push_back(batch);
  owned_ = !batches.empty() && batches.front().owner != BatchLease::kAnyWorker;
  dealt_end_ = batches.empty() ? 0 : batches.front().positions.begin;
  Reopen();
}

void LeaseBook::Reopen() {
  closed_ = false;
  finished_.clear();
}

int64_t LeaseBook::CutToDealt() {
  Batches kept;
  for (const auto& [owner, batches] : free_) {
    for (const BatchLease& batch : batches) {
      if (batch.positions.begin < dealt_end_) kept.push_back(batch);
    }
  }
  std::sort(kept.begin(), kept.end(),
            [](const BatchLease& a, const BatchLease& b) { return a.positions.begin < b.positions.begin; });
  for (BatchLease& batch : kept) batch.owner = BatchLease::kAnyWorker;
  free_ = {{BatchLease::kAnyWorker, std::move(kept)}};
  return dealt_end_;
}

LeaseBook::Batches* LeaseBook::FreeFor(int worker) {
  for (const int owner : {worker, BatchLease::kAnyWorker}) {
    if (const auto own = free_.find(owner); own != free_.end() && !own->second.empty()) return &own->second;
  }
  Batches* first = nullptr;
  for (auto& [owner, batches] : free_) {
    if (batches.empty() || dealt_.count(owner) > 0) continue;
    if (first == nullptr || batches.front().positions.begin < first->front().positions.begin) {
      first = &batches;
    }
  }
  return first;
}

void LeaseBook::TakeFree(Batches& free, Batches& to) {
  to.push_back(free.front());
  free.pop_front();
  dealt_end_ = std::max(dealt_end_, to.back().positions.end);
}

void LeaseBook::Leave(int worker) {
  const auto dealt = dealt_.find(worker);
  if (dealt == dealt_.end()) return;
  for (auto lease = dealt->second.rbegin(); lease != dealt->second.rend(); ++lease) {
    if (lease->positions.count() > 0) ReturnFree(*lease);
  }
  dealt_.erase(dealt);
  finished_.erase(worker);
}

void LeaseBook::DealRound() {
  // A round may have fewer batches than workers. The remaining workers get steps without samples. Such a step
  // belongs to the global batch of the round's first batch.
  std::vector<Batches*> without;
  BatchLease empty;
  bool any = false;
  for (auto& [worker, batches] : dealt_) {
    Batches* free = FreeFor(worker);
    if (free == nullptr) {
      without.push_back(&batches);
      continue;
    }
    TakeFree(*free, batches);
    batches.back().clock = next_round_;
    if (!any) empty.step = batches.back().step;
    any = true;
  }
  TETHYS_CHECK(any, "a round without batches");
  empty.positions = {empty.step.end, empty.step.end};
  empty.clock = next_round_;
  for (Batches* batches : without) batches->push_back(empty);
  ++next_round_;
}

// A worker gets its own batches first. `mine` stays empty if the worker has no batches of its own left and
// may get no other batches.
void LeaseBook::DealOnDemand(int worker, int64_t batches, Batches& mine) {
  const auto workers = static_cast<int64_t>(dealt_.size());
  while (static_cast<int64_t>(mine.size()) < batches) {
    Batches* free = FreeFor(worker);
    if (free == nullptr) return;
    const auto left = static_cast<int64_t>(free->size());
    const bool own = free->front().owner == worker;
    const int64_t fair = own ? batches : std::max<int64_t>(1, left / (2 * workers));
    const auto most = std::min({batches - static_cast<int64_t>(mine.size()), fair, left});
    for (int64_t i = 0; i < most; ++i) TakeFree(*free, mine);
    if (!own) return;
  }
}

LeaseBook::Leases LeaseBook::Lease(int worker, int batches) {
  const auto dealt = dealt_.find(worker);
  if (dealt == dealt_.end()) return {.batches = {}, .last = true};
  Batches& mine = dealt->second;
  const bool closed = closed_ || finished_.count(worker) > 0;
  if (in_rounds_) {
    while (!closed && has_free() && static_cast<int>(mine.size()) < batches) DealRound();
  } else if (!closed) {
    DealOnDemand(worker, batches, mine);
  }
  Leases leases;
  for (int64_t count = batches; !mine.empty() && count > 0; --count) {
    const BatchLease& lease = mine.front();
    if (lease.positions.count() > 0) held_[lease.positions.begin] = {worker, lease, {}};
    leases.batches.push_back(lease);
    mine.pop_front();
  }
  leases.last = mine.empty() && (closed || (in_rounds_ ? !has_free() : FreeFor(worker) == nullptr));
  if (!leases.last) return leases;
  if (owned_ && !in_rounds_) {
    finished_.insert(worker);
  } else {
    closed_ = true;
  }
  return leases;
}

absl::Status LeaseBook::Use(int worker, Slice positions) {
  if (positions.count() == 0) return absl::OkStatus();
  const auto held = held_.find(positions.begin);
  if (held == held_.end() || held->second.worker != worker || held->second.lease.positions != positions) {
    return absl::FailedPreconditionError(absl::StrCat("worker ", worker, " reports positions [",
                                                      positions.begin, ", ", positions.end,
                                                      ") as used, but holds no lease for these positions"));
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
      ReturnFree(lease);
      ++settlement.returned;
    }
    held = held_.erase(held);
  }
  return settlement;
}

// ----------------------------------------------------------------------------------------- saved state

namespace {

void Put(const BatchLease& batch, proto::SavedLease& saved) {
  Put(batch.positions, *saved.mutable_positions());
  Put(batch.step, *saved.mutable_step());
  saved.set_clock(batch.clock);
  saved.set_owner(batch.owner);
}

BatchLease LeaseOf(const proto::SavedLease& saved) {
  return {.positions = SliceOf(saved.positions()),
          .step = SliceOf(saved.step()),
          .clock = saved.clock(),
          .owner = saved.owner()};
}

// `least`: the fewest samples that the batch may have.
void Check(const BatchLease& batch, int64_t least, const LeaseBook::Limits& limits, StateCheck& check) {
  const auto& [begin, end] = batch.positions;
  // A step without samples lies at the end of its global batch, which may be after the segment's end.
  const int64_t last = least == 0 && begin == end ? limits.step_end : limits.segment.end;
  check.That(begin >= limits.segment.begin && begin <= end && end <= last && end - begin >= least,
             "a batch [", begin, ", ", end, ") in the segment [", limits.segment.begin, ", ",
             limits.segment.end, ")");
  check.That(batch.step.begin >= limits.segment.begin && batch.step.begin <= begin && batch.step.end >= end &&
                 batch.step.end <= limits.step_end,
             "a batch [", begin, ", ", end, ") of the step [", batch.step.begin, ", ", batch.step.end, ")");
  check.Count("clock", batch.clock);
  check.Within("owner", batch.owner, BatchLease::kAnyWorker, limits.workers - 1);
}

}  // namespace

void LeaseBook::Save(proto::LeaseBookState& state) const {
  for (const auto& [owner, batches] : free_) {
    for (const BatchLease& batch : batches) Put(batch, *state.add_free());
  }
  for (const auto& [worker, batches] : dealt_) {
    proto::LeaseBookState::Dealt& saved = *state.add_dealt();
    saved.set_worker(worker);
    for (const BatchLease& batch : batches) Put(batch, *saved.add_batch());
  }
  for (const auto& [begin, held] : held_) {
    proto::LeaseBookState::Held& saved = *state.add_held();
    saved.set_worker(held.worker);
    Put(held.lease, *saved.mutable_batch());
    saved.mutable_server()->Assign(held.servers.begin(), held.servers.end());
  }
  state.mutable_finished()->Assign(finished_.begin(), finished_.end());
  state.set_owned(owned_);
  state.set_dealt_end(dealt_end_);
  state.set_closed(closed_);
  state.set_next_round(next_round_);
}

absl::Status LeaseBook::Restore(const proto::LeaseBookState& state, const Limits& limits) {
  StateCheck check;
  std::map<int, Batches> free, dealt;
  std::map<int64_t, Held> held;
  for (const proto::SavedLease& saved : state.free()) {
    const BatchLease batch = LeaseOf(saved);
    Check(batch, 1, limits, check);
    free[batch.owner].push_back(batch);
  }
  const auto check_worker = [&](int worker) { check.Within("worker", worker, 0, limits.workers - 1); };
  for (const proto::LeaseBookState::Dealt& saved : state.dealt()) {
    check_worker(saved.worker());
    check.That(dealt.count(saved.worker()) == 0, "worker ", saved.worker(), " takes part twice");
    Batches& batches = dealt[saved.worker()];
    for (const proto::SavedLease& batch : saved.batch()) {
      batches.push_back(LeaseOf(batch));
      Check(batches.back(), in_rounds_ ? 0 : 1, limits, check);
    }
  }
  for (const proto::LeaseBookState::Held& saved : state.held()) {
    check_worker(saved.worker());
    for (const int server : saved.server()) check.Within("server", server, 0, limits.servers - 1);
    const BatchLease batch = LeaseOf(saved.batch());
    Check(batch, 1, limits, check);
    held[batch.positions.begin] = {saved.worker(), batch, {saved.server().begin(), saved.server().end()}};
  }
  for (const int worker : state.finished()) check_worker(worker);
  check.Count("dealt_end", state.dealt_end());
  check.Count("next_round", state.next_round());
  check.That(static_cast<int>(held.size()) == state.held_size(), "a batch is held twice");
  TETHYS_RETURN_IF_ERROR(check.status());
  free_ = std::move(free);
  dealt_ = std::move(dealt);
  held_ = std::move(held);
  finished_ = {state.finished().begin(), state.finished().end()};
  owned_ = state.owned();
  dealt_end_ = state.dealt_end();
  closed_ = state.closed();
  next_round_ = state.next_round();
  return absl::OkStatus();
}

}  // namespace tethys
