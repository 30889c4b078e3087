// Reads a committed checkpoint, written under any strategy by any number of processes. Open verifies all
// files, so that a damaged checkpoint is refused before any value is used. Read then returns ranges of
// arenas. An arena is the flat array of all parameters, or of all values of one optimizer slot
// (runtime/tensor/variable.h).
//
// Read is thread-safe. All calls block on the disk; Open reads every byte once.
#ifndef TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_READER_H_
#define TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/checkpoint.pb.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/moving_statistics.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/tensor/variable.h"

namespace tethys {

class CheckpointReader {
 public:
  // `expected` are the variables of the model to load into; null accepts any model. `slot_names` are the
  // optimizer's slots in the order in which Read numbers them. FailedPrecondition: the checkpoint is of
  // another model; the message names the first variable that differs. DataLoss: the checkpoint is damaged;
  // the message names file and tensor. NotFound: `directory` holds no manifest.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
      const std::string& directory, const VariableSet* expected,
      const std::vector<std::string>& slot_names = {});

  const std::string& directory() const { return directory_; }
  const proto::CheckpointManifest& manifest() const { return manifest_; }
  // The checkpoint's variables; initial values, fan_in and fan_out are not kept in a checkpoint.
  const VariableSet& variables() const { return variables_; }

  // The number of slots: slot 0 holds the parameters, and each of Open's slot_names has one slot.
  int slot_count() const { return static_cast<int>(first_tensor_.size()); }
  // False: the checkpoint was saved without that slot (by another optimizer), and Read gives zeros.
  bool has_slot(int slot) const { return first_tensor_[slot] >= 0; }

  // Reads the moving statistics. `expected` has the names and shapes of the model's statistics, at least one.
  // FailedPrecondition: the checkpoint has no statistics, or the statistics of another model. DataLoss: the
  // file was damaged after Open.
  absl::StatusOr<MovingStatistics> ReadStatistics(const VariableSet& expected) const;

  // Reads elements [arena_begin, arena_begin + out.size()) of a slot's arena; padding is 0. InvalidArgument:
  // the arena has no such range.
  absl::Status Read(int slot, int64_t arena_begin, absl::Span<float> out) const;

 private:
  struct OpenFile {
    std::string path;
    FileDescriptor fd;
  };
  // The file and the offset at which a tensor's bytes begin.
  struct Location {
    int file = 0;
    int64_t offset = 0;
  };

  explicit CheckpointReader(std::string directory) : directory_(std::move(directory)) {}
  absl::Status ReadManifest();
  absl::Status VerifyFiles();
  absl::Status VerifyFile(const proto::CheckpointFile& listed);
  absl::Status VerifyTensor(const std::string& path, int fd, int64_t data_begin,
                            const SafetensorsEntry& entry) const;
  absl::Status RebuildVariables();
  void LocateSlots(const std::vector<std::string>& slot_names);

  const std::string directory_;
  proto::CheckpointManifest manifest_;
  VariableSet variables_;
  std::vector<OpenFile> files_;
  std::vector<Location> tensors_;  // [slot][variable], flattened, in the manifest's order.
  // For each slot of Read, the index of its first tensor in tensors_; -1: the slot is missing.
  std::vector<int> first_tensor_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CHECKPOINT_CHECKPOINT_READER_H_
