// The checks that a worker's frame passes before a parameter store takes it, and the errors that refuse it. A
// refusal names the server, the worker and the step. Pure; used by the store's thread.
#ifndef TETHYS_PS_FRAME_CHECKS_H_
#define TETHYS_PS_FRAME_CHECKS_H_

#include <string>

#include "ps/payload.h"
#include "ps/push_inbox.h"
#include "ps/store_actions.h"
#include "runtime/consistency/rule.h"

namespace tethys {

class FrameChecks {
 public:
  // `config` must outlive the checks. Its workers and its generation may change in the meantime.
  explicit FrameChecks(const StoreConfig& config) : config_(config) {}

  // Returns the beginning of an error: "server 0 refuses worker 1, step 7: ".
  std::string Who(const Frame& frame) const;
  // Returns `error` with Who(frame) before its message.
  absl::Status Refusal(const absl::Status& error, const Frame& frame) const;

  // InvalidArgument: the job has no such worker. FailedPrecondition: the frame is of another generation.
  absl::Status CheckSender(const Frame& frame) const;
  // FailedPrecondition: another process has replaced the worker's process.
  absl::Status CheckIncarnation(const Frame& frame, const PushInbox& inbox) const;
  // Checks a part of a push. InvalidArgument: its payload or its number of samples contradicts the job.
  // OutOfRange: the push is not the worker's next push, or the part does not belong to the current push.
  absl::Status CheckPart(const Frame& frame, PayloadPieces payload, const PushInbox& inbox,
                         const ConsistencyRule& rule, int64_t version) const;
  // InvalidArgument if the range overlaps an earlier part of the same push.
  absl::Status CheckOverlap(const Frame& frame, Range local, const PushInbox& inbox) const;
  // DataLoss: the payload does not match its checksum.
  absl::Status CheckIntact(const Frame& frame, PayloadPieces payload) const;

  // The errors of a step that cannot be completed: a worker was lost within the step, or a value is not
  // finite.
  absl::Status LostWithinStep(const PushInbox& inbox) const;
  absl::Status NotFinite(const Frame& frame, const ShardLayout& layout) const;

 private:
  const StoreConfig& config_;
};

// The step of a push, in the form that ConsistencyRule takes.
PushedStep StepOf(const Frame& push);

}  // namespace tethys

#endif  // TETHYS_PS_FRAME_CHECKS_H_
