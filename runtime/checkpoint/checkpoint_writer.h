// Writes one checkpoint: ROOT/step-N/{model,optimizer}.safetensors and manifest.textproto. The chief creates
// a writer, lets the processes that hold the values write their ranges of the arenas in any order, and
// commits. An arena is the flat array of all parameters, or of all values of one optimizer slot
// (runtime/tensor/variable.h).
//
//   TETHYS_ASSIGN_OR_RETURN(auto writer,
//                           CheckpointWriter::Create(root, step, variables, {"momentum"}, job_name));
//   ... writer->Write(0, begin, parameters); writer->Write(1, begin, momentum);
//   TETHYS_RETURN_IF_ERROR(writer->Commit(state));
//
// Write may be called by several threads at once; all calls block on the disk. A writer holds no values in
// memory.
#ifndef TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_WRITER_H_
#define TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/checkpoint.pb.h"
#include "runtime/base/file.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/moving_statistics.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// The moving statistics to be saved, and their names and shapes.
struct SavedStatistics {
  VariableSet set = {};
  MovingStatistics values = {};
};

// Invariants:
//  1. The directory is called ROOT/step-N.tmp until Commit renames it. Readers ignore ROOT/step-N.tmp.
//  2. A committed checkpoint is complete: every element of every tensor is finite and was written by exactly
//     one range. Files and directory were synced before the rename.
//  3. If there is an earlier checkpoint of the same step, ListCheckpoints finds the earlier or the new
//     checkpoint at every moment of Commit.
class CheckpointWriter {
 public:
  // `variables` and `slot_names` (the optimizer's slots, in its order) determine the tensors that must be
  // written. Reserves the disk space. ResourceExhausted: the disk is full.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(const std::string& root, int64_t step,
                                                                  const VariableSet& variables,
                                                                  std::vector<std::string> slot_names,
                                                                  std::string job_name);
  // Removes the files unless Commit has succeeded.
  ~CheckpointWriter();

  // Writes elements [arena_begin, arena_begin + values.size()) of the parameters (slot 0) or of optimizer
  // slot number `slot` - 1. Padding is skipped. The same range may be written again (a retry).
  // InvalidArgument: the range lies outside the arena or overlaps another range, or a value is not finite
  // (the message names tensor and index). ResourceExhausted: the disk is full. After an error the range
  // counts as not written.
  absl::Status Write(int slot, int64_t arena_begin, absl::Span<const float> values);

  // Call this once, after all calls of Write have returned. FailedPrecondition names the first element that
  // was not written. After any error the checkpoint is lost and Commit cannot be retried: a failed sync may
  // have dropped the data (fsync(2)). (If only the sync of ROOT fails, the checkpoint is complete but may not
  // survive a power cut.) `description` goes into the manifest, which also lists the moving statistics, if
  // the model has any.
  absl::Status Commit(const proto::TrainingState& state, const proto::ModelDescription& description = {},
                      const SavedStatistics& statistics = {});

  // ROOT/step-N, which exists once Commit has succeeded.
  const std::string& directory() const { return directory_; }

 private:
  struct TensorFile;
  struct Claimed {
    int64_t end;
    bool written;
  };

  CheckpointWriter(std::string root, int64_t step, const VariableSet& variables,
                   std::vector<std::string> slot_names, std::string job_name);

  absl::Status CreateFiles();
  absl::Status CreateFile(const std::string& name, int first_slot, const std::vector<std::string>& slots);
  absl::Status Claim(int slot, Range range);
  absl::Status WriteTensors(int slot, Range range, const float* values);
  absl::Status CheckAllWritten();
  absl::Status Seal(const proto::TrainingState& state, const proto::ModelDescription& description,
                    const SavedStatistics& statistics);
  absl::Status MoveIntoPlace();

  const std::string root_;
  const std::string directory_;
  const std::string temporary_;
  const VariableSet variables_;
  const std::vector<std::string> slot_names_;
  const std::string job_name_;
  std::vector<TensorFile> files_;

  Mutex mu_;
  // Per slot, the ranges that a Write has claimed, keyed by their begin.
  std::vector<std::map<int64_t, Claimed>> claims_ ABSL_GUARDED_BY(mu_);

  // Used by the committing thread.
  bool commit_tried_ = false;
  bool committed_ = false;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_WRITER_H_
