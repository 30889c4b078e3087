// Records which worker holds which batches of the running segment, in jobs whose consistency leases batches.
// Pure; used on the chief's loop only. The traits of the strategy (runtime/shape/shape_traits.h) determine
// how batches are leased:
//
//   on demand   a batch is leased to the next worker that requests a batch
//   in rounds   round c gives one batch to every worker that takes part, for its step with clock c. Without
//               losses, round c has the batches of bulk-synchronous step c.
//
// In a sharded job each batch belongs to one worker, its owner, and is leased to that worker only. While the
// owner takes no part, its batches are leased to workers that have no batches of their own left.
//
// Whether the batches of a lost worker are used or free again is decided only by the servers' reports of the
// pushes that they applied, never by the worker's own reports.
#ifndef TETHYS_RUNTIME_CHIEF_LEASE_BOOK_H_
#define TETHYS_RUNTIME_CHIEF_LEASE_BOOK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "proto/chief_state.pb.h"
#include "runtime/base/status.h"
#include "runtime/data/sharding.h"
#include "runtime/shape/shape_traits.h"

namespace tethys {

struct BatchLease {
  static constexpr int kAnyWorker = -1;
  Slice positions;  // May be empty in a round: the worker then makes a step without samples.
  Slice step;  // The global batch that contains the positions; in asynchronous jobs equal to `positions`.
  int64_t clock = 0;  // The number of the round.
  int owner = kAnyWorker;
  bool operator==(const BatchLease&) const = default;
};

// These functions cut a segment into batches to lease, in order: SingleBatches into batches of `batch`
// samples, BatchesOfSteps into each worker's share of each global batch.
std::vector<BatchLease> SingleBatches(Slice segment, int64_t batch);
std::vector<BatchLease> BatchesOfSteps(Slice segment, int64_t global_batch, int workers);

// Invariants:
//  1. A batch is free, dealt to one worker but not sent, held by one worker, or done.
//  2. A closed book deals no further batches. A worker that has got its last lease makes no more steps, so in
//  a further round other workers would wait forever for this worker. If batches are leased on demand and have
//  owners, the book is closed for each worker separately.
class LeaseBook {
 public:
  explicit LeaseBook(tethys::Batches batches) : in_rounds_(batches == tethys::Batches::kInRounds) {}

  // Lets the worker take part, from the next round on.
  void Join(int worker) { dealt_[worker]; }
  // Notes that the worker no longer takes part. Its batches stay held until Settle.
  void Leave(int worker);

  // Begins the next segment. Requires that no batch is held or free.
  void Open(const std::vector<BatchLease>& batches);
  // Ends the segment early: batches after the last dealt batch are never leased. Returns the end of the last
  // dealt batch, or the segment's begin if no batch was dealt. Some batches before that end may be free,
  // because a lost worker has returned them or a slow owner has not got them yet. From now on these free
  // batches can be leased to any worker, so that the segment does not wait for the slowest worker.
  int64_t CutToDealt();
  // Opens the book again, to lease batches that lost workers returned after it was closed. Requires that all
  // workers have ended the run.
  void Reopen();

  struct Leases {
    std::vector<BatchLease> batches;
    bool last = false;  // True if the worker gets no more leases.
  };
  // Leases at most `batches` batches to a worker that takes part. In an asynchronous job, batches that any
  // worker may get are leased in smaller numbers towards the end of the segment, so that the last batches are
  // spread over the workers.
  Leases Lease(int worker, int batches);

  // Notes that the worker has used a batch. FailedPrecondition: the worker does not hold that batch.
  absl::Status Use(int worker, Slice positions);
  // Notes that a server has applied a push of the gradients of these positions.
  void Applied(int server, Slice positions);

  struct TornBatch {
    Slice positions;
    std::vector<int> servers;  // The servers that applied the batch.
  };
  struct Settlement {
    std::vector<Slice> applied;   // Batches that every server applied.
    std::vector<TornBatch> torn;  // Batches that only some servers applied.
    int64_t returned = 0;         // Batches that no server applied; they are free again.
  };
  // Settles the batches of a worker that has left and can push no more. `servers`: the number of servers that
  // take pushes.
  Settlement Settle(int worker, int servers);

  bool closed() const { return closed_; }
  bool has_free() const { return free_count() > 0; }
  int64_t next_round() const { return next_round_; }
  bool in_rounds() const { return in_rounds_; }

  void Save(proto::LeaseBookState& state) const;
  // Limits for the numbers in a saved book.
  struct Limits {
    int workers = 0;
    int servers = 0;
    Slice segment;  // Must contain all positions of the book's batches.
    // No global batch ends after this position. A segment that was cut short may end before it.
    int64_t step_end = 0;
  };
  // InvalidArgument: the book breaks a limit or invariant 1.
  absl::Status Restore(const proto::LeaseBookState& state, const Limits& limits);
  // Calls function(positions) for each batch that is not done, also for batches without positions.
  template <typename Function>
  void ForEachBatch(const Function& function) const {
    for (const auto* batches : {&free_, &dealt_}) {
      for (const auto& [worker, list] : *batches) {
        for (const BatchLease& batch : list) function(batch.positions);
      }
    }
    for (const auto& [begin, held] : held_) function(held.lease.positions);
  }

 private:
  struct Held {
    int worker;
    BatchLease lease;
    std::vector<int> servers;  // The servers that have applied the batch.
  };

  using Batches = std::deque<BatchLease>;
  int64_t free_count() const;
  // Returns the free batches that the worker gets next: its own, batches without an owner, or batches of an
  // owner that takes no part. Null if there are no such batches.
  Batches* FreeFor(int worker);
  void TakeFree(Batches& free, Batches& to);
  void ReturnFree(const BatchLease& batch) { free_[batch.owner].push_front(batch); }
  void DealRound();
  void DealOnDemand(int worker, int64_t batches, Batches& mine);

  const bool in_rounds_;
  std::map<int, Batches> free_;  // The free batches of each owner.
  bool owned_ = false;           // True if the segment's batches have owners.
  int64_t dealt_end_ = 0;        // The end of the last batch that was ever dealt from the segment.
  // For each worker that takes part, the batches that were dealt to it but not sent.
  std::map<int, Batches> dealt_;
  std::set<int> finished_;        // Workers for which the book is closed.
  std::map<int64_t, Held> held_;  // The held batches, by first position.
  bool closed_ = false;
  int64_t next_round_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_LEASE_BOOK_H_
