// Updates in lock step that depend on norms: clipping by global norm, and the trust ratios of LARS and LAMB.
// No server has all gradients of a step, nor whole variables, so workers carry sums of squares from server to
// server:
//
//   worker                        server
//   kPush, all ranges   ------->  adds up, updates nothing
//   kNorm               ------->  waits for the pushes of all workers
//                       <-------  kNorm: the sum of squares of this server's gradient sums
//   kMeasure: the total ------->  measures with the clipped gradients
//                       <-------  kMeasure: two sums of squares for each shard (RegionSquares)
//   kCommit: the totals ------->  the first one updates the parameters
//                       <-------  kParameters, to every worker, for each range it pushed
//                       <-------  kCommit
//
// Without trust ratios kMeasure is left out, and kCommit brings the total of kNorm. Without clipping, kNorm
// is left out, and kMeasure carries no total and waits for the pushes of all workers. A worker adds the sums
// of all servers in the order of servers. Servers give all workers the same sums, so all workers send the
// same totals, and all servers scale their gradients by the same factor. A worker pushes the next step only
// when all servers have confirmed its commit, so the sums of a step remain known until every worker has used
// them.
//
// This class is a server's side of the exchange as a state machine: its input is a worker's frame, its output
// what the store does next. Pure; used by the store's thread.
#ifndef TETHYS_PS_NORM_EXCHANGE_H_
#define TETHYS_PS_NORM_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "ps/frame_checks.h"
#include "ps/payload.h"
#include "ps/push_inbox.h"
#include "ps/store_actions.h"
#include "runtime/optim/optimizer.h"

namespace tethys {

class NormExchange {
 public:
  // `layout` and `checks` must outlive the exchange. If `lock_step` is false, no update depends on norms.
  NormExchange(const StoreConfig& config, bool lock_step, const ShardLayout& layout,
               const FrameChecks& checks);

  bool clips() const { return clip_norm_ > 0; }
  bool measures() const { return measures_; }
  // True if updates are held back until their norms are known.
  bool holds_back() const { return clips() || measures(); }
  // True from the arrival of a step's last gradient until the step is committed.
  bool holds_step() const { return summed_ > 0 && summed_ == layout_.element_count(); }

  // Records that `elements` more elements of shards have their sums over all workers. Returns true if these
  // are the last elements of the step.
  bool Add(int64_t elements);
  // For clipping: sets the sum of squares of this server's gradient sums. Called once holds_step() is true.
  void SetNorm(double sum_square) { norm_ = {sum_square}; }

  // InvalidArgument: the frame requests or brings norms that no update of this server depends on.
  absl::Status CheckWanted(const Frame& frame) const;
  // Takes a kNorm, kMeasure or kCommit frame whose sender has been checked; `inbox` belongs to the sender.
  // Returns what the store does next. An error changes nothing. InvalidArgument: the frame is malformed,
  // totals are below this server's own sums or differ from the totals that came first, or a norm is not
  // finite. OutOfRange: the frame is not of the worker's last push, or comes before the sums that it depends
  // on. DataLoss: the payload does not match its checksum.
  enum class Next {
    kWait,     // The store answers as soon as holds_step() is true.
    kAnswer,   // The store answers at once.
    kMeasure,  // The store measures the variables with gradients that Clip has clipped, then answers.
    kUpdate,  // The store makes the update, clipped by Clip, with the squares that End returns, then answers.
  };
  absl::StatusOr<Next> Take(const Frame& frame, PayloadPieces payload, const PushInbox& inbox);
  NormReply AnswerTo(FrameKind kind, const Frame& frame) const;

  // If gradients are clipped, lowers `update.gradient_scale` so that the norm of the held step's gradients is
  // at most the clip norm.
  void Clip(Update& update) const;
  // Sets the sums of squares that were measured for the held step, one entry per shard.
  void SetMeasured(absl::Span<const RegionSquares> squares);
  bool is_measured() const { return is_measured_; }
  // Forgets the sums of a step that is not committed.
  void Drop();
  // Ends the held step. Returns the sums of squares of its variables, by shard; empty without trust ratios.
  std::vector<RegionSquares> End();

 private:
  size_t measured_values() const { return kSumsOfShard * layout_.shards().size(); }
  // Checks that the frame is for the worker's last push and announces `values` sums of squares, and that the
  // payload has the size of `sent` sums.
  absl::Status CheckExchange(const Frame& frame, PayloadPieces payload, const PushInbox& inbox, size_t values,
                             size_t sent) const;
  // Checks that the totals over all servers are not below this server's `own` sums and, unless `first` is
  // null, equal the totals in `first`, which arrived first.
  absl::Status CheckTotals(const Frame& frame, const std::vector<double>& totals,
                           const std::vector<double>& own, const std::vector<double>* first) const;
  absl::Status CheckNorm(const Frame& frame, double total) const;
  absl::Status TooEarly(const Frame& frame) const;
  absl::StatusOr<Next> TakeMeasure(const Frame& frame, PayloadPieces payload, bool current);
  absl::StatusOr<Next> TakeCommit(const Frame& frame, PayloadPieces payload, bool current);

  static constexpr size_t kSumsOfShard = sizeof(RegionSquares) / sizeof(double);

  const double clip_norm_;
  const bool measures_;
  const ShardLayout& layout_;
  const FrameChecks& checks_;

  int64_t summed_ = 0;        // Elements of shards whose sum over all workers is complete.
  bool is_measured_ = false;  // True from SetMeasured on; slots may have changed by then.
  // The members below keep their values after the step's commit, for workers that have not received their
  // answers yet.
  std::vector<double> norm_;        // Clipping: the sum of squares of this server's gradient sums.
  std::vector<double> total_norm_;  // Clipping with trust ratios: the sum of norm_ over all servers.
  std::vector<double> measured_;    // Trust ratios: the two sums of RegionSquares, for each shard.
  std::vector<double> committed_;   // The totals that the first kCommit of the step brought.
};

}  // namespace tethys

#endif  // TETHYS_PS_NORM_EXCHANGE_H_
