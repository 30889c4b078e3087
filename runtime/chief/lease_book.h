// Which worker holds which batches of the running segment, where workers train on leases. Pure; the chief's
// loop only.
//
//   asynchronously        batches go to whoever asks
//   stale-synchronously   they go in rounds: round c gives every worker that takes part one batch, its step
//                         of clock c, so that all clocks stay comparable; without losses, round c is what
//                         bulk-synchronous workers use in step c
//
// What a lost worker held is settled by what the servers say they applied, never by the worker's word.
#ifndef TETHYS_RUNTIME_CHIEF_LEASE_BOOK_H_
#define TETHYS_RUNTIME_CHIEF_LEASE_BOOK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/sharding.h"

namespace tethys {

struct BatchLease {
  Slice positions;    // May be empty in a round: a step without samples.
  Slice step;         // The global batch that they are a part of; else the positions themselves.
  int64_t clock = 0;  // The round.
  bool operator==(const BatchLease&) const = default;
};

// A segment as batches to lease, in order.
std::vector<BatchLease> SingleBatches(Slice segment, int64_t batch);
std::vector<BatchLease> BatchesOfSteps(Slice segment, int64_t global_batch, int workers);

// Invariants:
//  1. A batch is free, dealt to one worker and not sent, held by one worker, or done.
//  2. A closed book gives out nothing that it had not dealt before: a worker that was told "last" gets no
//  more, so no other may wait for it.
class LeaseBook {
 public:
  explicit LeaseBook(bool in_rounds) : in_rounds_(in_rounds) {}

  // Takes part from the next round on.
  void Join(int worker) { dealt_[worker]; }
  // What it holds stays held until it is settled.
  void Leave(int worker);

  // The next segment. Requires that nothing is held or free.
  void Open(const std::vector<BatchLease>& batches);
  // The segment is to end early: batches behind the last one that was dealt are never given out. Returns
  // where that one ends; nothing of the segment was dealt: its begin. What a lost worker gave back is still
  // leased.
  int64_t CutToDealt();
  // Batches that came back after the book was closed are given out again. All workers are at rest.
  void Reopen() { closed_ = false; }

  struct Leases {
    std::vector<BatchLease> batches;
    bool last = false;  // This worker gets no more.
  };
  // At most `batches` for a worker that takes part; fewer towards the end, so that the last ones are spread.
  Leases Lease(int worker, int batches);

  // The worker has used what it held. FailedPrecondition: it did not hold that.
  absl::Status Use(int worker, Slice positions);
  // A server has applied a push of these positions.
  void Applied(int server, Slice positions);

  struct TornBatch {
    Slice positions;
    std::vector<int> servers;  // Those that applied it.
  };
  struct Settlement {
    std::vector<Slice> applied;  // Everywhere.
    std::vector<TornBatch> torn;
    int64_t returned = 0;  // Applied nowhere: free again.
  };
  // Of a worker that has left and can apply nothing any more. `servers`: how many take pushes.
  Settlement Settle(int worker, int servers);

  bool closed() const { return closed_; }
  bool has_free() const { return !free_.empty(); }
  int64_t next_round() const { return next_round_; }

 private:
  struct Held {
    int worker;
    BatchLease lease;
    std::vector<int> servers;
  };

  BatchLease TakeFree();
  void DealRound();

  const bool in_rounds_;
  std::deque<BatchLease> free_;
  int64_t dealt_end_ = 0;  // Of the segment's batches, the end of the last that was ever dealt.
  std::map<int, std::deque<BatchLease>> dealt_;  // By worker that takes part.
  std::map<int64_t, Held> held_;                 // By first position.
  bool closed_ = false;
  int64_t next_round_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_LEASE_BOOK_H_
