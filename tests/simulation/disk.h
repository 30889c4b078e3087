// The chief's disk, whose contents survive the end of the chief. The journal file holds the lines that the
// chief has passed to the disk. A checkpoint exists once it is committed; an interrupted save leaves nothing.
#ifndef TETHYS_TESTS_SIMULATION_DISK_H_
#define TETHYS_TESTS_SIMULATION_DISK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/checkpoint.pb.h"
#include "runtime/base/status.h"
#include "tests/simulation/simulated_job.h"

namespace tethys::simulation {

struct Checkpoint {
  proto::TrainingState state;
  Values values;
  int64_t missing = 0;  // The number of parameters and slots that no process has written.
};

// A range of the parameters (slot 0) or of the optimizer's slot (slot 1).
struct SavedRange {
  int slot = 0;
  int64_t begin = 0;
  std::vector<float> values;
};

class Disk {
 public:
  explicit Disk(const SmallModel& model) : model_(model) {}

  void Open(int64_t id, const proto::TrainingState& state) {
    open_ = Saving{id, {.state = state, .values = model_.Initial()}, {}};
    for (std::vector<bool>& written : open_->written) written.assign(model_.arena_size(), false);
  }
  absl::Status Write(int64_t id, const SavedRange& range) {
    if (!open_.has_value() || open_->id != id) {
      return absl::FailedPreconditionError(absl::StrCat("no save ", id, " is open"));
    }
    Values& to = open_->checkpoint.values;
    std::vector<float>& values = range.slot == 0 ? to.parameters : to.slot;
    for (size_t i = 0; i < range.values.size(); ++i) {
      values[range.begin + i] = range.values[i];
      open_->written[range.slot][range.begin + i] = true;
    }
    return absl::OkStatus();
  }
  void Abandon() { open_.reset(); }
  // Commits the open save. Requires that a save is open.
  const Checkpoint& Commit() {
    Checkpoint& saved = open_->checkpoint;
    for (const int64_t i : model_.elements()) {
      for (const std::vector<bool>& written : open_->written) saved.missing += written[i] ? 0 : 1;
    }
    newest_ = std::move(saved);
    open_.reset();
    return *newest_;
  }

  const absl::optional<Checkpoint>& newest() const { return newest_; }
  bool saving() const { return open_.has_value(); }
  std::string& journal() { return journal_; }

 private:
  struct Saving {
    int64_t id;
    Checkpoint checkpoint;
    std::vector<bool> written[2];
  };

  const SmallModel& model_;
  absl::optional<Saving> open_;
  absl::optional<Checkpoint> newest_;
  std::string journal_;
};

}  // namespace tethys::simulation

#endif  // TETHYS_TESTS_SIMULATION_DISK_H_
