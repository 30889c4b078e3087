// Writes the checkpoint that is being saved. Slow work on the disk (allocating space, syncing, reading back
// for checksums, removing old checkpoints) runs on a thread of its own. So the chief's loop is never blocked:
// it still answers tasks, and shows the launcher that the chief is alive.
//
//   saver.Open(id, step, done)  ->  Write ... by all sources  ->  saver.Commit(state, ..., done)
//                                                                 or saver.Abandon()
//
// Write blocks on the disk and may be called on several threads at once. The other functions never block, and
// one thread calls them. `done` is called on the saver's thread, and never after the saver is destroyed.
#ifndef TETHYS_RUNTIME_CHIEF_CHECKPOINT_SAVER_H_
#define TETHYS_RUNTIME_CHIEF_CHECKPOINT_SAVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/checkpoint.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class CheckpointSaver {
 public:
  struct Options {
    std::string root;      // The folder RUN_DIR/checkpoints.
    std::string job_name;  // The name of the job, which is written into the manifest.
    VariableSet variables;
    VariableSet statistics = {};     // Moving statistics; empty if the model has none.
    std::vector<std::string> slots;  // Names of the optimizer's slots, in the optimizer's order.
    int keep = 1;  // Number of newest checkpoints to keep, besides the best one and `needed`.
    absl::optional<int64_t> needed = {};  // The step of a checkpoint that is kept in any case.
    // Writes the values that no task holds; runs on the saver's thread when a checkpoint is opened. Null:
    // there are no such values.
    std::function<absl::Status(CheckpointWriter&)> write_frozen = nullptr;
  };
  CheckpointSaver(Options options, const Clock& clock);
  // Starts the saver's thread, which does all the work. ResourceExhausted: no thread can be started.
  absl::Status Start();
  // Drops queued work, and blocks until the disk operation in progress has ended.
  ~CheckpointSaver();

  // Begins a checkpoint of `step`. Requires that the last checkpoint was committed or abandoned.
  void Open(int64_t id, int64_t step, std::function<void(const absl::Status&)> done);

  // Writes `values` to the checkpoint of save `id`. Errors: those of CheckpointWriter::Write;
  // FailedPrecondition: save `id` is not open.
  absl::Status Write(int64_t id, int slot, int64_t begin, absl::Span<const float> values);

  struct Committed {
    absl::Status status;  // If not OK, the last good checkpoint remains the newest checkpoint.
    std::string directory;
    absl::Status pruned;  // Result of removing older checkpoints and linking the best.
  };
  // Completes the open checkpoint; Unavailable if none is open, because another process opened it. Requires
  // that all calls of Write have returned. `description` goes into the manifest. `before` writes data that
  // must be on the disk before the checkpoint; it runs on the saver's thread.
  void Commit(const proto::TrainingState& state, const proto::ModelDescription& description,
              const MovingStatistics& statistics, std::function<absl::Status()> before,
              std::function<void(const Committed&)> done);
  // Discards the open checkpoint, if there is one.
  void Abandon();

 private:
  std::shared_ptr<CheckpointWriter> Take();
  absl::Status Tidy(const proto::TrainingState& state);

  const Options options_;

  Mutex mu_;
  std::shared_ptr<CheckpointWriter> writer_ ABSL_GUARDED_BY(mu_);
  int64_t id_ ABSL_GUARDED_BY(mu_) = 0;

  EventLoop loop_;  // Runs on the saver's thread.
  Thread thread_;   // Declared last: it uses all of the above.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHECKPOINT_SAVER_H_
