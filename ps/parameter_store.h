// One server's parameters and the protocol that changes them: events in (a part of a push, a pull), actions
// out (answers, records of applied pushes). Pure: no clock, thread or transport. Used by the server's loop
// thread.
//
// A worker's push for one step consists of parts, each one range of the arena; together they cover every run
// of this server's layout. All parts of a push have the same sequence number, which counts the worker's
// pushes from 1.
//
// The job's consistency decides when pushes are applied, which pushes make one update, and the divisor of
// each update (runtime/consistency/rule.h). The store carries this out in one of three ways:
//
//   parameter_store_elements.cc  in lock step: gradients are added up as they come, and an element is updated
//                                and answered as soon as all workers' gradients of it have arrived
//   parameter_store_norms.cc     in lock step, if the update depends on norms: the update is held back
//                                until all gradients of the step have arrived, and a worker has sent the
//                                norms over all servers (norm_exchange.h)
//   parameter_store_pushes.cc    otherwise: pushes are kept whole, until the rule says that they are due;
//   with
//                                copies of the shards, updates wait for the copy (parameter_store_copies.cc)
//
// The store keeps a PushInbox for each worker, the gradients that are not applied yet (PushedGradients), and
// parameters and slots (ShardState). FrameChecks refuses frames that contradict the job or earlier frames.
//
// If asynchronous workers pull before each step, a push is answered without parameters.
#ifndef TETHYS_PS_PARAMETER_STORE_H_
#define TETHYS_PS_PARAMETER_STORE_H_

#include <map>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "ps/arrival_count.h"
#include "ps/copied_pushes.h"
#include "ps/frame_checks.h"
#include "ps/norm_exchange.h"
#include "ps/push_inbox.h"
#include "ps/pushed_gradients.h"
#include "ps/shard_state.h"
#include "ps/store_actions.h"
#include "runtime/consistency/rule.h"

namespace tethys {

// Invariants:
// 1. A step is a transaction. An update of whole pushes begins when all of its gradients have arrived and are
// known to be finite, and no event comes between its parts. The same holds for an update in lock step that
// depends on norms, except that LAMB already changes slots when it measures the variables. Other updates in
// lock step begin earlier, so that answers are sent while gradients still arrive. Such an update ends when
// every part of every worker is applied, and it is recorded before the last answer. If the shards have a
// copy, the last answers are sent once the copy contains the update. If an update cannot end, ForEachShard
// fails from then on, so no checkpoint contains an unfinished update. After an error of the update itself,
// pushes and pulls fail, too.
// 2. A push (worker, incarnation, sequence) is applied at most once. A repeat of an updated part is answered
// with the current parameters; a repeat of a waiting part is ignored.
// 3. In lock step, parameters do not change between a reply and the next full set of pushes. A worker
// pushes again only after it has all its replies, so replies may be sent from the store's memory.
// 4. Padding stays zero.
// 5. Parameters are sent to a worker for a step only when the rule allows the worker to begin the step
// (MayBegin).
class ParameterStore {
 public:
  // Allocates all memory of the store. `optimizer` updates ranges of this server's memory
  // (ShardLayout::Shard::local); `stream` belongs to the optimizer's device and must outlive the store.
  // Parameters and slots start as zeros, at version 0. ResourceExhausted: this host has too little memory;
  // the error gives the sizes and a remedy.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(StoreConfig config, ShardLayout layout,
                                                                std::unique_ptr<Optimizer> optimizer,
                                                                Stream& stream);

  // Handle a part of a push, or a pull. An error refuses the frame and changes nothing: InvalidArgument
  // (malformed), FailedPrecondition (old generation or incarnation), OutOfRange (range not on this server, or
  // step out of order), DataLoss (checksum). The exception is a non-finite value, also FailedPrecondition: it
  // breaks the store (invariant 1).
  absl::Status OnPush(const Frame& frame, PayloadPieces payload, StoreActions& actions);
  absl::Status OnPull(const Frame& frame, StoreActions& actions);
  // Handles a kNorm, kMeasure or kCommit frame (norm_exchange.h). kNorm and kMeasure are answered once all
  // workers' gradients have arrived; the first kCommit of a step updates the parameters. A repeated frame is
  // answered again. Returns the errors of OnPush, and also InvalidArgument if sums are below this server's
  // own sums, sums differ from the sums that arrived first, or a norm is not finite.
  absl::Status OnExchange(const Frame& frame, PayloadPieces payload, StoreActions& actions);
  // Refuses frames of the worker's earlier incarnations from now on and discards their unapplied parts.
  // InvalidArgument: the job has no such worker. FailedPrecondition: in lock step the worker's push, or the
  // step of this push, is incomplete and cannot be completed without the worker.
  absl::Status OnFence(const proto::Fence& fence, StoreActions& actions);
  // Called if the shards have a copy (StoreConfig::copied): the copy has the values of `version`. If the
  // store applies whole pushes, `version` is the number of the copy (StoreActions::CopyAll). Sends the
  // answers that wait for this copy, unless they were sent already.
  void OnCopied(int64_t version, StoreActions& actions);
  // The number of the copy for which applied pushes wait; 0: none. Only a store of whole pushes whose shards
  // have a copy has such numbers.
  int64_t open_copy() const { return copied_.open ? copied_.number : 0; }

  // Returns the newest copy of a store of whole pushes, to be sent as a whole to a server that may lack it.
  // The store makes no update until OnCopied.
  StoreCopy OfferCopy();
  // Goes on from a copy whose values the store has (ForEachShard), instead of from a checkpoint.
  // InvalidArgument: the copy is of another number of workers. Error of SetVersion.
  absl::Status TakeBook(const StoreCopy& copy);
  // The records of applied pushes that the copy contained.
  const PushLog& push_log() const { return copied_.log; }
  // The worker's incarnation; frames of earlier incarnations are refused.
  uint32_t incarnation(int worker) const { return inboxes_[worker].incarnation; }

  const ShardLayout& layout() const { return layout_; }
  // The workers that the store serves now (StoreConfig::workers).
  const std::vector<int>& workers() const { return config_.workers; }
  // The number of applied updates, including updates before a restored checkpoint.
  int64_t version() const { return version_; }
  bool lock_step() const { return lock_step_; }
  const float* parameters() const { return state_.parameters(); }
  // The parameters, then each slot, in the layout of the server's memory.
  std::vector<const float*> values() const { return state_.values(); }
  // For each staleness, the number of updates whose stalest push had this staleness.
  const std::map<int64_t, int64_t>& staleness_histogram() const { return staleness_histogram_; }

  // Calls `function` for all shards of the parameters, then of each slot (ShardState::ForEachShard).
  // FailedPrecondition while an update is unfinished (invariant 1).
  absl::Status ForEachShard(ShardState::ShardFunction function);
  // Sets the version at a barrier. FailedPrecondition: a push is incomplete or waits.
  absl::Status SetVersion(int64_t version);
  // In lock step with StoreConfig::keeps_undo: gives parameters and slots their values at `version`, bit by
  // bit. `version` may always be the current version; if the next update has begun, it is undone. If no next
  // update has begun, `version` may also be the previous version; the last update is then undone. (A worker
  // pushes only after all servers have answered its previous push, so the servers of a job differ by one
  // version at most, and all can step back to the lowest of their versions.) Gradients that workers have
  // pushed for later updates are dropped. From then on the store serves `workers` (StoreConfig::workers), at
  // most as many as when it was created, under the new `generation`. These workers count their pushes from 1.
  // A store without shards takes any version. An error changes nothing. FailedPrecondition: the store keeps
  // no undo, cannot step back to `version`, or has failed before. InvalidArgument: the generation is not
  // later than the current one, or the number of workers is impossible.
  absl::Status StepBack(int64_t version, uint32_t generation, const std::vector<int>& workers);

 private:
  ParameterStore(StoreConfig config, ShardLayout layout, std::unique_ptr<Optimizer> optimizer,
                 Stream& stream);
  absl::Status Allocate();
  // Begins to serve these workers, none of which has pushed yet.
  void Serve(const std::vector<int>& workers);
  bool keeps_undo() const { return lock_step_ && config_.keeps_undo; }
  absl::Status Admit(const Frame& frame);
  // Begins anew with the worker's next process. The unapplied push and the pulls of the earlier process are
  // discarded.
  void Replace(int worker, uint32_t incarnation);
  // Records a part of a push, and copies or adds its values. False if a result is not finite.
  bool TakePart(const Frame& frame, Range local, PayloadPieces payload);
  // Answers the worker's pulls if their step may begin.
  void AnswerPulls(int worker, StoreActions& actions);

  // In lock step: updates the elements whose last missing gradient came with part `local` of `worker`.
  absl::Status UpdateArrived(int worker, Range local, StoreActions& actions);
  absl::Status UpdateRange(const Update& update, StoreActions& actions);
  // Ends the pushes of all workers after the update of `last`, the last range.
  void EndStep(Range last, StoreActions& actions);
  // True if the current step measures the gradient noise.
  bool MeasuresNoise() const;

  // In lock step, if the update depends on norms: adds up the gradients of the elements in `ranges` over the
  // workers. If these are the last elements of the step, answers the workers that wait for its norms.
  absl::Status HoldBack(int worker, const std::vector<Range>& ranges, StoreActions& actions);
  // Returns the update of the step whose update is held back, with clipped gradients. `frame` comes from a
  // worker whose push is part of the step.
  absl::StatusOr<Update> MakeHeldUpdate(const Frame& frame) const;
  absl::Status MeasureHeld(const Frame& frame, StoreActions& actions);
  absl::Status UpdateHeld(const Frame& frame, StoreActions& actions);

  // For whole pushes: makes the updates that are due, then answers their pushes and the pulls whose step may
  // now begin.
  absl::Status GoOn(const std::vector<DueUpdate>& due, StoreActions& actions);
  // Makes one update. With `answer_parts`, answers each part as soon as it is updated.
  absl::Status ApplyTogether(const DueUpdate& due, bool answer_parts, StoreActions& actions);
  // Records an applied push, if the shards have a copy once the copy contains the push.
  void NoteApplied(const proto::AppliedPush& push, StoreActions& actions);

  // Functions for whole pushes, if the shards have a copy (parameter_store_copies.cc).
  bool copies_pushes() const { return config_.copied && !lock_step_; }
  // Makes the updates that are due after the event, and copies them; if a copy is open, once it is complete.
  absl::Status TakeEvent(const CopiedPushes::Event& event, StoreActions& actions);
  absl::Status ApplyForCopy(const CopiedPushes::Event& event, StoreActions& actions);
  // Begins the next copy, if pushes were applied; otherwise answers pulls whose step may now begin.
  void CopyOrAnswer(StoreActions& actions);
  void OnPushesCopied(int64_t number, StoreActions& actions);
  proto::PushBook Book() const;  // Without records.
  // Discards what waits for the worker's earlier process.
  void ForgetCopied(int worker);

  // InvalidArgument if `divisor`, the number of samples, is not positive.
  absl::StatusOr<Update> MakeUpdate(const Frame& push, int64_t divisor) const;
  // Advances the version by one update, made with the pushes of `workers`, and records these pushes.
  void CountUpdate(absl::Span<const int> workers, StoreActions& actions);
  // Marks `local` as updated in the worker's parts, and answers parts that are now fully updated.
  void AnswerUpdated(int worker, Range local, StoreActions& actions);
  void Answer(int worker, PushParts::Part& part, StoreActions& actions);
  // Ends a fully updated push: answers its unanswered parts, including parts that hold only padding.
  void EndPush(int worker, StoreActions& actions);
  ParameterReply AnswerTo(const Frame& frame, Range local) const;
  absl::Status Break(absl::Status reason, StoreActions& actions);

  StoreConfig config_;
  const ShardLayout layout_;
  const size_t most_workers_;
  std::unique_ptr<ConsistencyRule> rule_;
  const bool lock_step_;
  const bool answers_with_values_;  // True: answers to pushes contain parameters, like answers to pulls.
  FrameChecks checks_;
  std::vector<int> all_workers_;

  ShardState state_;
  PushedGradients gradients_;
  std::vector<PushInbox> inboxes_;
  ArrivalCount arrived_;  // In lock step: arrivals of the current step.
  NormExchange norms_;    // Used in lock step only.
  int64_t version_ = 0;
  int64_t updated_ = 0;    // In lock step: elements of shards that are already at version_ + 1.
  double sum_square_ = 0;  // ParameterReply::sum_square of the current or last step.
  // The last range of a step whose last answers wait for OnCopied.
  absl::optional<Range> uncopied_;
  CopiedPushes copied_;  // Used for whole pushes only.
  absl::Status broken_;  // The fatal error, returned to every later push and pull.
  std::map<int64_t, int64_t> staleness_histogram_;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_STORE_H_
