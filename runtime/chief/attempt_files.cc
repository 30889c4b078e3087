#include "runtime/chief/attempt_files.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "proto/summary.pb.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/chief/attempts.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

std::string Warning(const absl::Status& status) { return absl::StrCat("warning: ", status.message()); }

bool IsThere(const std::string& root, int64_t step) {
  const auto checkpoints = ListCheckpoints(root);
  return !checkpoints.ok() ||
         absl::c_any_of(*checkpoints, [step](const CheckpointEntry& entry) { return entry.step == step; });
}

}  // namespace

void NoteEarlierAttempts(const std::string& run_dir, proto::TrainingState& state) {
  const absl::StatusOr<proto::RunSummary> last = ReadSummary(run_dir);
  *state.mutable_attempt() =
      EarlierAttempts(state, last.ok() ? absl::optional<proto::RunSummary>(*last) : absl::nullopt);
}

std::vector<std::string> BeginCheckpoints(const std::string& root, StartingState& start) {
  std::vector<std::string> notes;
  for (const std::string& path : start.damaged) {
    const absl::StatusOr<std::string> aside = SetAsideCheckpoint(path);
    notes.push_back(aside.ok() ? absl::StrCat("set the damaged checkpoint aside: ", *aside)
                               : Warning(aside.status()));
  }
  if (start.state.has_best() && !IsThere(root, start.state.best().step())) {
    notes.push_back(absl::StrCat("the best checkpoint so far, of epoch ", start.state.best().epoch() + 1,
                                 ", no longer exists: the next validated epoch becomes the best"));
    start.state.clear_best();
  }
  const absl::Status linked = LinkBest(
      root, start.state.has_best() ? absl::optional<int64_t>(start.state.best().step()) : absl::nullopt);
  if (!linked.ok()) notes.push_back(Warning(linked));
  return notes;
}

absl::Status BeginTraining(const std::string& run_dir, TimingCollector& tables) {
  absl::Status status = RemoveRecursively(absl::StrCat(run_dir, "/", kSummaryFile));
  status.Update(tables.Begin());
  return status;
}

}  // namespace tethys
