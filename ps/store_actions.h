// The configuration and the actions of a parameter store: plain data, and the interface that the server
// (parameter_server.cc) implements on its loop thread.
#ifndef TETHYS_PS_STORE_ACTIONS_H_
#define TETHYS_PS_STORE_ACTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "proto/chief.pb.h"
#include "proto/shard_copy.pb.h"
#include "runtime/base/status.h"
#include "runtime/optim/optimizer_kind.h"
#include "runtime/optim/schedule.h"
#include "runtime/tensor/frame.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The job's settings that a server's store needs besides the layout of the server's shards.
struct StoreConfig {
  int server = 0;
  // The index of each worker, by the rank under which it pushes: in lock step the workers of the group,
  // otherwise all workers of the job.
  std::vector<int> workers = {0};
  uint32_t generation = 0;
  std::vector<OptimizerSlot> slots;
  LearningRateSchedule schedule;
  proto::ParameterServer parameter_server;  // The job's settings for servers, such as the consistency model.
  int64_t global_batch = 0;                 // In samples; the divisor of asynchronous GLOBAL_MEAN.
  // Bulk-synchronous: the limit on the norm of the mean gradient, taken over the elements of all servers; 0:
  // no limit.
  double clip_norm = 0;
  // Bulk-synchronous: true if the optimizer has a trust ratio. The optimizer's regions must then be the
  // shards of the layout, in order.
  bool measures = false;
  // Bulk-synchronous: true if the store can step back (ParameterStore::StepBack). The store then needs twice
  // the memory for parameters and slots, and copies all values that an update changes. True for jobs that
  // form new groups (FormsNewGroups in runtime/cluster/job_plan.h).
  bool keeps_undo = false;
  // True if another server keeps a copy of the shards. In lock step, the last answers of a step then wait
  // until this server has the copy (ParameterStore::OnCopied); otherwise all answers do.
  bool copied = false;
};

// An answer to a worker: the current parameters or, without values, the confirmation that its push is
// applied.
struct ParameterReply {
  int worker = 0;
  uint64_t sequence = 0;  // Sequence of the answered push or pull.
  uint64_t step = 0;
  Range arena;
  Range local;
  int64_t version = 0;
  int64_t staleness = 0;  // Staleness of the answered push.
  // In bulk-synchronous steps that measure the gradient noise: the squared norm of all workers' gradient
  // sums, over the elements that this server has updated so far. The last answer to a worker covers all
  // elements of the server.
  double sum_square = 0;
  bool with_values = true;
};

// An answer to a worker's kNorm, kMeasure or kCommit frame.
struct NormReply {
  FrameKind kind = FrameKind::kNorm;
  int worker = 0;
  uint64_t sequence = 0;  // Sequence of the worker's push.
  uint64_t step = 0;
  int64_t count = 0;                     // The number of sums of squares exchanged.
  absl::Span<const double> values = {};  // For kNorm and kMeasure: the sums, valid during the call.
};

// The header of the frame that carries the reply, without the payload's checksum.
Frame AnswerFrame(const ParameterReply& reply, uint32_t generation);
Frame AnswerFrame(const NormReply& reply, uint32_t generation);

// The actions of a store. Each action is carried out at once, so that the first parts of a large update are
// sent while the rest is still being computed.
class StoreActions {
 public:
  virtual ~StoreActions() = default;
  // Records an applied push. Called before the first reply to the push (in lock step: before the last reply),
  // so that a push is recorded before its worker can regard it as applied.
  virtual void Record(const proto::AppliedPush& push) = 0;
  virtual void Reply(const ParameterReply& reply) = 0;
  virtual void ReplyNorm(const NormReply& reply) = 0;
  // Called with StoreConfig::copied in lock step only: the elements of `local` have their values of
  // `version`, which the open update makes. They change again only after ParameterStore::OnCopied.
  virtual void Copy(Range /*local*/, int64_t /*version*/) {}
  // Called with StoreConfig::copied otherwise: all elements have the values of the copy with this number,
  // which contains the pushes of `book`. They change again only after ParameterStore::OnCopied.
  virtual void CopyAll(int64_t /*number*/, const proto::PushBook& /*book*/) {}
  // Called when the job cannot continue: non-finite gradients, or a failed update.
  virtual void Fail(const absl::Status& status) = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_STORE_ACTIONS_H_
