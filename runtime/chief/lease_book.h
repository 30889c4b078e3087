// Keeps which worker holds which batches of the running segment, for jobs that train on leases. Pure; used on
// the chief's loop only.
//
//   asynchronously        batches go to the workers that ask
//   stale-synchronously   they go in rounds: round c gives every worker that takes part one batch, its step
//                         of clock c, so that all clocks stay comparable; without losses, round c is what
//                         bulk-synchronous workers use in step c
//
// The batches of a lost worker are settled by the servers' reports of what they applied, never by the
// worker's.
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
  Slice step;         // The global batch that holds the positions; asynchronously the positions themselves.
  int64_t clock = 0;  // The round.
  bool operator==(const BatchLease&) const = default;
};

// Cuts a segment into batches to lease, in order.
std::vector<BatchLease> SingleBatches(Slice segment, int64_t batch);
std::vector<BatchLease> BatchesOfSteps(Slice segment, int64_t global_batch, int workers);

// Invariants:
//  1. A batch is free, dealt to one worker and not sent, held by one worker, or done.
//  2. A closed book deals no further batches: a worker that was told "last" gets no more, so no other worker
//  may wait for it.
class LeaseBook {
 public:
  explicit LeaseBook(bool in_rounds) : in_rounds_(in_rounds) {}

  // The worker takes part from the next round on.
  void Join(int worker) { dealt_[worker]; }
  // The worker's batches stay held until Settle.
  void Leave(int worker);

  // Begins the next segment. Requires that no batch is held or free.
  void Open(const std::vector<BatchLease>& batches);
  // Ends the segment early: batches behind the last dealt one are never leased. Returns the end of that
  // batch, or the segment's begin if none was dealt. Batches that came back from a lost worker are still
  // leased.
  int64_t CutToDealt();
  // Leases batches that came back after the book was closed. Requires that all workers have ended the run.
  void Reopen() { closed_ = false; }

  struct Leases {
    std::vector<BatchLease> batches;
    bool last = false;  // The worker gets no more.
  };
  // At most `batches` for a worker that takes part. Towards the end it gets fewer, so that the last batches
  // are spread over the workers.
  Leases Lease(int worker, int batches);

  // The worker has used a batch. FailedPrecondition: it does not hold that batch.
  absl::Status Use(int worker, Slice positions);
  // A server has applied a push of these positions.
  void Applied(int server, Slice positions);

  struct TornBatch {
    Slice positions;
    std::vector<int> servers;  // Those that applied it.
  };
  struct Settlement {
    std::vector<Slice> applied;  // By every server.
    std::vector<TornBatch> torn;
    int64_t returned = 0;  // Batches that no server applied; they are free again.
  };
  // Settles the batches of a worker that has left and can push no more. `servers`: the number that take
  // pushes.
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
  int64_t dealt_end_ = 0;                        // End of the last batch of the segment that was ever dealt.
  std::map<int, std::deque<BatchLease>> dealt_;  // By worker that takes part.
  std::map<int64_t, Held> held_;                 // By first position.
  bool closed_ = false;
  int64_t next_round_ = 0;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_LEASE_BOOK_H_
