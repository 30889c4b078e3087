// One server's parameters and the protocol that changes them: events in (a part of a push, a pull), actions
// out (answers, records of what was applied). Knows no clock, thread or transport; it belongs to the server's
// loop thread.
//
// A worker's push for one step comes in parts, each one range of the arena; together they cover every run of
// this server's layout. All parts of a push bear the same sequence number, which counts the worker's pushes
// from 1.
//
//   consistency       an update begins when               divided by                   staleness
//   bulk-synchronous  all parts of all workers are here   samples of the global batch  0
//   asynchronous      all parts of one push are here      the push's own samples, or   version - base version
//                                                         the job's global batch
//   stale-synchronous a worker may go on                  samples of the global batch  version - base version
//
// Stale-synchronously with bound s, a worker that has made c steps may go on once no other has made fewer
// than c - s; until then its answer is held back. Pushes gather meanwhile, and are applied when somebody is
// to see parameters: those of one step (one position in the schedule) together, as one update, in the order
// of their steps. So with s = 0 every update is the bulk-synchronous one, bit by bit; and a push misses at
// most 2 s + 1 pushes of every other worker.
#ifndef TETHYS_PS_PARAMETER_STORE_H_
#define TETHYS_PS_PARAMETER_STORE_H_

#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "proto/chief.pb.h"
#include "ps/payload.h"
#include "ps/shard_layout.h"
#include "runtime/optim/optimizer.h"
#include "runtime/tensor/arena.h"
#include "runtime/tensor/frame.h"

namespace tethys {

// What a server is told about the job, beside its layout.
struct StoreConfig {
  int server = 0;
  int workers = 1;
  uint32_t generation = 0;
  proto::Optimizer optimizer;
  proto::ParameterServer parameter_server;  // Its consistency.
  int64_t global_batch = 0;                 // Samples; divisor of GLOBAL_MEAN, asynchronously.
  int64_t total_samples = 0;                // Of the whole job: what a linear decay without length spans.
};

// "Send worker these parameters as they are now."
struct ParameterReply {
  int worker = 0;
  uint64_t sequence = 0;  // Of the push or pull it answers.
  uint64_t step = 0;
  Range arena;
  Range local;
  int64_t version = 0;
  int64_t staleness = 0;  // Of the push it answers.
};

// What the store asks for, at once and in this order: while a large update is still under way, its first
// parts are on the network.
class StoreActions {
 public:
  virtual ~StoreActions() = default;
  // Comes before any reply that shows the push: what a worker knows to be applied is in the journal's hands.
  virtual void Record(const proto::AppliedPush& push) = 0;
  virtual void Reply(const ParameterReply& reply) = 0;
  // The job cannot go on: gradients that are not finite, a failed update.
  virtual void Fail(const absl::Status& status) = 0;
};

// Invariants:
// 1. A step is a transaction: an update begins when all of its gradients are here and known to be finite, and
// no event comes between its parts. A store whose update failed serves nobody any more.
// 2. A push (worker, incarnation, sequence) is applied at most once; a repeat of an applied one is answered
// with the parameters as they are, a repeat of a part still waiting is ignored.
// 3. Bulk-synchronous parameters do not change between a reply and the next full set of pushes. A worker
// pushes again only after it has all its replies, so replies may be sent from live memory.
// 4. With ordered summation, element i is ((g0 + g1) + g2) + ... in rank order, whatever the order of
// arrival.
// 5. Padding stays zero.
// 6. Stale-synchronously, parameters that a worker is sent for step c hold all pushes of the workers that
// take part for steps before c - s, and its own.
class ParameterStore {
 public:
  // `optimizer` works on segments of the layout's local ranges; `stream` is its device's and outlives the
  // store. Parameters and slots start as zeros, at version 0.
  ParameterStore(StoreConfig config, ShardLayout layout, std::unique_ptr<Optimizer> optimizer,
                 Stream& stream);

  // A part of a push. An error refuses the frame's worker and changes nothing: InvalidArgument (malformed),
  // FailedPrecondition (old generation or incarnation, non-finite), OutOfRange (range, step out of order).
  absl::Status OnPush(const Frame& frame, PayloadPieces payload, StoreActions& actions);
  absl::Status OnPull(const Frame& frame, StoreActions& actions);
  // From now on frames of the worker's earlier incarnations are refused; what of them is not applied is
  // forgotten. InvalidArgument: no such worker.
  absl::Status OnFence(const proto::Fence& fence, StoreActions& actions);
  // Frames of earlier ones are refused.
  uint32_t incarnation(int worker) const { return inboxes_[worker].incarnation; }

  const ShardLayout& layout() const { return layout_; }
  // Updates applied, those before a restored checkpoint included.
  int64_t version() const { return version_; }
  bool bulk_synchronous() const { return bulk_; }
  const float* parameters() const { return parameters_.data(); }
  // Updates by the staleness of their stalest push.
  const std::map<int64_t, int64_t>& staleness_histogram() const { return staleness_histogram_; }

  // Slot 0 is the parameters, 1, 2, ... the optimizer's slots; all shards of a slot, then the next slot.
  using ShardFunction =
      absl::FunctionRef<absl::Status(int slot, int64_t arena_begin, absl::Span<float> values)>;
  absl::Status ForEachShard(ShardFunction function);
  // FailedPrecondition while a push is under way: versions change at barriers only.
  absl::Status SetVersion(int64_t version);

 private:
  struct Part {
    Range arena;
    Range local;
    bool staged = false;    // Waits in Inbox::staging to be added.
    bool answered = false;  // Updated, and the worker told.
  };
  // One worker as the store sees it.
  struct Inbox {
    uint32_t incarnation = 0;
    Frame applied;            // Header of the last applied push; sequence 0: none yet.
    int64_t staleness = 0;    // Of that push.
    Frame push;               // Header of the push under way; sequence 0: there is none.
    std::vector<Part> parts;  // What is here of it,
    int64_t received = 0;     // in elements.
    // Stale-synchronously:
    bool held = false;               // The push is applied, and its answer held back.
    bool takes_part = true;          // Others may have to wait for it.
    uint64_t clock = 0;              // Steps made: one more than the step of the last whole push.
    std::map<int64_t, Frame> pulls;  // Held back, by first element.
    Arena staging;                   // Allocated on first use.
  };

  absl::Status Admit(const Frame& frame);
  absl::Status CheckPush(const Frame& frame, PayloadPieces payload) const;
  absl::Status CheckFirstPart(const Frame& frame) const;
  absl::Status CheckNextPart(const Frame& frame) const;
  // False for a part that is here already; InvalidArgument for one that overlaps others.
  absl::StatusOr<bool> IsNew(const Frame& frame, Range local) const;
  // False when it holds a value that is not finite.
  bool TakePart(const Frame& frame, Range local, PayloadPieces payload);
  bool Complete(const Inbox& inbox) const { return inbox.received == layout_.element_count(); }
  // FailedPrecondition when a sum is not finite.
  absl::Status AdvanceOrder();
  absl::Status ApplyIfComplete(int worker, StoreActions& actions);
  // Stale-synchronously: if some worker may go on, applies what has gathered and answers all who may.
  absl::Status GoOn(StoreActions& actions);
  // It is here as a whole, applied or not.
  bool Whole(const Inbox& inbox) const { return inbox.push.sequence != 0 && Complete(inbox); }
  bool MayBegin(uint64_t step) const;
  void AnswerPulls(int worker, StoreActions& actions);
  // Whole pushes that are not applied, by step: those of one step in rank order.
  std::vector<std::vector<int>> Gathered() const;
  absl::Status ApplyTogether(const std::vector<int>& workers, StoreActions& actions);
  void Forget(Inbox& inbox);
  // Updates with the pushes of `workers`, which are complete, and answers them, part after part, unless their
  // answers are held back. Of the last to arrive the parts tell how the update is cut.
  absl::Status Commit(absl::Span<const int> workers, int last, const float* gradient_sums, int64_t divisor,
                      StoreActions& actions);
  void Record(int worker, int64_t staleness, StoreActions& actions);
  // All parts not answered yet, or those that are exactly `local`.
  void Answer(int worker, const Range* local, StoreActions& actions);
  ParameterReply AnswerTo(const Frame& frame, Range local) const;
  absl::Status NotFinite(const Frame& frame) const;
  absl::Status Break(absl::Status reason, StoreActions& actions);
  std::string Who(const Frame& frame) const;

  const StoreConfig config_;
  const ShardLayout layout_;
  const bool bulk_;
  const bool stale_;
  const bool ordered_;
  const std::unique_ptr<Optimizer> optimizer_;
  Stream& stream_;

  Arena parameters_;
  std::vector<Arena> slots_;
  std::vector<float*> slot_pointers_;
  Arena sum_;  // Bulk-synchronous: gradients of the step so far.
  std::vector<Inbox> inboxes_;
  std::vector<int> all_workers_;
  int next_rank_ = 0;  // Ordered: the worker whose parts go straight into `sum_`.
  int64_t version_ = 0;
  absl::Status broken_;  // After a fatal error: what every later push is told.
  std::map<int64_t, int64_t> staleness_histogram_;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_STORE_H_
