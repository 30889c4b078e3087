// Interrupts what a worker does together with the other members of its group, when the chief halts the group,
// and tells it of moved servers. Thread-safe. Nothing blocks, except for the callbacks of an Interruption.
#ifndef TETHYS_WORKERS_GROUP_INTERRUPTION_H_
#define TETHYS_WORKERS_GROUP_INTERRUPTION_H_

#include <cstdint>
#include <memory>

#include "ps/server_moves.h"
#include "runtime/base/interruption.h"
#include "runtime/base/mutex.h"

namespace tethys {

// Invariant: the interruption of a group is raised if a Halt of its generation, or of a later one, has come,
// even if the Halt came before Begin. That can happen because the session's reader thread handles a Halt
// while the training thread is busy with an earlier order.
class GroupInterruption {
 public:
  // Called by the session's reader thread. No effect if the newest group has a later generation.
  void OnHalt(uint32_t generation);

  // Called by the training thread when the group with this generation begins to form. Returns the group's
  // interruption, which lives until the next call. Nothing may watch the previous group's interruption.
  Interruption& Begin(uint32_t generation);

  // Aborted if the newest group was halted.
  absl::Status Check() const;

  ServerMoves& moves() { return moves_; }

 private:
  ServerMoves moves_;
  mutable Mutex mu_;
  uint32_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t halted_ ABSL_GUARDED_BY(mu_) = 0;                    // The latest generation of a Halt.
  std::unique_ptr<Interruption> current_ ABSL_GUARDED_BY(mu_);  // Null before the first group.
};

}  // namespace tethys

#endif  // TETHYS_WORKERS_GROUP_INTERRUPTION_H_
