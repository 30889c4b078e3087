// The checkpoint that is being saved. What may keep a disk busy (taking the space, syncing, reading back for
// checksums, removing old ones) is done on a thread of its own: the chief's loop goes on, so tasks are
// answered and the launcher sees that the chief lives, however long it takes.
//
//   saver.Open(id, step, done)  ->  Write ... by all sources  ->  saver.Commit(state, journal, done)
//                                                                 or saver.Abandon()
//
// Write blocks on the disk and is called by any threads, several at once; the rest by one thread, and never
// blocks. `done` is called on the saver's thread; after the saver is gone, not at all.
#ifndef TETHYS_RUNTIME_CHIEF_CHECKPOINT_SAVER_H_
#define TETHYS_RUNTIME_CHIEF_CHECKPOINT_SAVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "proto/checkpoint.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class CheckpointSaver {
 public:
  struct Options {
    std::string root;                // RUN_DIR/checkpoints.
    std::string job_name;            // For the manifest.
    VariableSet variables;           // What is saved,
    std::vector<std::string> slots;  // and of the optimizer, in its order.
    int keep = 1;                    // So many checkpoints remain, and the best.
  };
  CheckpointSaver(Options options, const Clock& clock);
  // Waits for what the disk is busy with, and drops what was not begun.
  ~CheckpointSaver();

  // Begins a checkpoint of `step`. Requires that the last one was committed or abandoned.
  void Open(int64_t id, int64_t step, std::function<void(const absl::Status&)> done);

  // Errors of CheckpointWriter::Write; FailedPrecondition: save `id` is not the one that is open.
  absl::Status Write(int64_t id, int slot, int64_t begin, absl::Span<const float> values);

  struct Committed {
    absl::Status status;  // Of Commit; where it is not OK, the last good checkpoint stands.
    std::string directory;
    absl::Status pruned;  // Older checkpoints were removed, and the best is linked.
  };
  // Requires an open checkpoint and that all Writes have returned. `description` goes into the manifest.
  // `before`: what must be on the disk before the checkpoint is; called on the saver's thread.
  void Commit(const proto::TrainingState& state, const proto::ModelDescription& description,
              std::function<absl::Status()> before, std::function<void(const Committed&)> done);
  // The open checkpoint, if there is one, comes to nothing.
  void Abandon();

 private:
  std::shared_ptr<CheckpointWriter> Take();
  absl::Status Tidy(const proto::TrainingState& state);

  const Options options_;

  Mutex mu_;
  std::shared_ptr<CheckpointWriter> writer_ ABSL_GUARDED_BY(mu_);
  int64_t id_ ABSL_GUARDED_BY(mu_) = 0;

  EventLoop loop_;      // Of the saver's thread.
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHIEF_CHECKPOINT_SAVER_H_
