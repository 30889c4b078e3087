// One server's parameters and the protocol that changes them: events in (a part of a push, a pull), actions
// out (answers, records of what was applied). Knows no clock, thread or transport; it belongs to the server's
// loop thread.
//
// A worker's push for one step comes in parts, each one range of the arena; together they cover every run of
// this server's layout. All parts of a push bear the same sequence number, which counts the worker's pushes
// from 1.
//
//   consistency       an element is updated when          divided by                   staleness
//   bulk-synchronous  all workers' gradients of it are    samples of the global batch  0
//                     here
//   asynchronous      all parts of one push are here      the push's own samples, or   version - base version
//                                                         the job's global batch
//   stale-synchronous a worker may go on                  samples of the global batch  version - base version
//
// Stale-synchronously with bound s, a worker that has made c steps may go on once no other has made fewer
// than c - s; until then its answer is held back. Pushes gather meanwhile, and are applied when somebody is
// to see parameters: those of one step (one position in the schedule) together, in the order of their steps.
// docs/design.md says why, and what the bound promises.
//
// Where asynchronous workers pull before each step, a push is answered without parameters.
#ifndef TETHYS_PS_PARAMETER_STORE_H_
#define TETHYS_PS_PARAMETER_STORE_H_

#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ps/arrival_count.h"
#include "ps/payload.h"
#include "ps/push_inbox.h"
#include "ps/shard_layout.h"
#include "ps/store_actions.h"
#include "runtime/optim/optimizer.h"
#include "runtime/tensor/arena.h"

namespace tethys {

// Invariants:
// 1. A step is a transaction. Asynchronously and stale-synchronously an update begins when all of its
// gradients are here and known to be finite, and no event comes between its parts. A bulk-synchronous one
// begins earlier, so that answers leave while gradients still come; but it has either every part of every
// worker, and is recorded before the last answer, or nobody is shown the rest: a store that stops within an
// update gives out neither parameters nor checkpoints any more.
// 2. A push (worker, incarnation, sequence) is applied at most once; a repeat of a part that is updated is
// answered with the parameters as they are, a repeat of one that waits is ignored.
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
  // forgotten. InvalidArgument: no such worker. FailedPrecondition: bulk-synchronously within a step, which
  // cannot be made without the worker.
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
  absl::Status Admit(const Frame& frame);
  absl::Status LostWithinStep(const PushInbox& inbox) const;
  absl::Status CheckPush(const Frame& frame, PayloadPieces payload) const;
  absl::Status CheckFirstPart(const Frame& frame) const;
  absl::Status CheckNextPart(const Frame& frame) const;
  // InvalidArgument when the range overlaps others of the same push.
  absl::Status CheckOverlap(const Frame& frame, Range local) const;
  // False when it holds a value that is not finite.
  bool TakePart(const Frame& frame, Range local, PayloadPieces payload);
  bool Complete(const PushInbox& inbox) const { return inbox.received == layout_.element_count(); }
  absl::Status ApplyIfComplete(int worker, StoreActions& actions);

  // Bulk-synchronously: updates what all workers' gradients are here of, now that `local` of `worker` is.
  absl::Status UpdateArrived(int worker, Range local, StoreActions& actions);
  // Adds up staged gradients in rank order; false when a sum is not finite.
  bool SumStaged(Range local);
  absl::Status UpdateRange(const Update& update, StoreActions& actions);

  // Stale-synchronously: if some worker may go on, applies what has gathered and answers all who may.
  absl::Status GoOn(StoreActions& actions);
  // It is here as a whole, applied or not.
  bool Whole(const PushInbox& inbox) const { return inbox.push.sequence != 0 && Complete(inbox); }
  // Of the workers that take part; the largest number where none does.
  uint64_t SlowestClock() const;
  void AnswerPulls(int worker, StoreActions& actions);
  // Whole pushes that are not applied, by step: those of one step in rank order.
  std::vector<std::vector<int>> Gathered() const;
  absl::Status ApplyTogether(const std::vector<int>& workers, StoreActions& actions);
  // Updates with the pushes of `workers`, which are complete, and answers them, part after part, unless their
  // answers are held back. Of the last to arrive the parts tell how the update is cut.
  absl::Status Commit(absl::Span<const int> workers, int last, const float* gradient_sums, int64_t divisor,
                      StoreActions& actions);
  // InvalidArgument without samples.
  absl::StatusOr<Update> MakeUpdate(const Frame& push, int64_t divisor) const;
  // The next version, with the pushes of `workers`.
  void CountUpdate(absl::Span<const int> workers, StoreActions& actions);
  void Record(int worker, int64_t staleness, StoreActions& actions);
  // Of the worker's parts. With actions, those that are updated as a whole are answered.
  void MarkUpdated(int worker, Range local, StoreActions* actions);
  void Answer(int worker, PushParts::Part& part, StoreActions& actions);
  // All of it is updated: answers what is not answered, parts without an element of a shard included.
  void EndPush(int worker, StoreActions& actions);
  ParameterReply AnswerTo(const Frame& frame, Range local) const;
  absl::Status NotFinite(const Frame& frame) const;
  absl::Status Break(absl::Status reason, StoreActions& actions);
  std::string Who(const Frame& frame) const;

  const StoreConfig config_;
  const ShardLayout layout_;
  const bool bulk_, stale_, ordered_;
  const bool answers_with_values_;  // Pushes; pulls are always.
  const std::unique_ptr<Optimizer> optimizer_;
  Stream& stream_;

  Arena parameters_;
  std::vector<Arena> slots_;
  std::vector<float*> slot_pointers_;
  Arena sum_;  // Bulk-synchronous: gradients of the step so far; ordered: those of worker 0, until added to.
  std::vector<PushInbox> inboxes_;
  ArrivalCount arrived_;  // Bulk-synchronous: of the step under way.
  std::vector<int> all_workers_;
  int64_t version_ = 0;
  int64_t updated_ = 0;  // Bulk-synchronous: elements of shards that are at version_ + 1 already.
  absl::Status broken_;  // After a fatal error: what every later push is told.
  std::map<int64_t, int64_t> staleness_histogram_;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_STORE_H_
