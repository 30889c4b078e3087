// Carries out the controller's actions about checkpoints by a CheckpointSaver, and passes the results back as
// inputs. A process that takes over repeats these actions without effect, and carries out only the last one
// if its result was lost with the lost chief.
#ifndef TETHYS_RUNTIME_CHIEF_SAVE_EXECUTOR_H_
#define TETHYS_RUNTIME_CHIEF_SAVE_EXECUTOR_H_

#include <functional>

#include "absl/types/variant.h"
#include "proto/checkpoint.pb.h"
#include "proto/chief_log.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/chief/checkpoint_saver.h"
#include "runtime/chief/chief_actions.h"

namespace tethys {

// Thread-compatible; the functions of Options are called on the saver's thread.
class SaveExecutor {
 public:
  struct Options {
    CheckpointSaver::Options saver;
    std::function<absl::Status()> sync_journal;            // Runs before a checkpoint is committed.
    std::function<void(proto::ChiefRecord input)> answer;  // Takes the result of OpenSave or CommitSave.
    std::function<void(const absl::Status&)> pruned;       // Takes the result of removing old checkpoints.
  };
  SaveExecutor(Options options, const Clock& clock);
  // ResourceExhausted: no thread can be started.
  absl::Status Start() { return saver_.Start(); }

  // From BeginRepeat to EndRepeat, actions have no effect. EndRepeat carries out the last action if no
  // Answered has followed it. `model`: as in Commit.
  void BeginRepeat() { repeating_ = true; }
  void Answered() { unanswered_ = {}; }
  void EndRepeat(const proto::ModelDescription& model);

  void Open(OpenSave action);
  // `model`: the description for the checkpoint's manifest.
  void Commit(const proto::ModelDescription& model);
  void Abandon();
  CheckpointSaver& saver() { return saver_; }

 private:
  const Options options_;
  bool repeating_ = false;
  absl::variant<absl::monostate, OpenSave, CommitSave> unanswered_;
  OpenSave open_;  // The last action that opened a checkpoint.
  CheckpointSaver saver_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_SAVE_EXECUTOR_H_
