#include "runtime/chief/checkpoint_saver.h"

#include <set>
#include <utility>

#include "runtime/checkpoint/checkpoint_store.h"

namespace tethys {
namespace {

constexpr Nanoseconds kNoTick = 3600 * kSecond;

}  // namespace

CheckpointSaver::CheckpointSaver(Options options, const Clock& clock)
    : options_(std::move(options)), loop_(clock) {}

absl::Status CheckpointSaver::Start() {
  return thread_.Start([this] { loop_.Run(kNoTick, [] {}); });
}

CheckpointSaver::~CheckpointSaver() {
  loop_.Stop();
  thread_.Join();
}

void CheckpointSaver::Open(int64_t id, int64_t step, std::function<void(const absl::Status&)> done) {
  loop_.Post([this, id, step, done = std::move(done)] {
    absl::StatusOr<std::unique_ptr<CheckpointWriter>> writer =
        CheckpointWriter::Create(options_.root, step, options_.variables, options_.slots, options_.job_name);
    absl::Status opened = writer.status();
    if (opened.ok() && options_.write_frozen != nullptr) opened = options_.write_frozen(**writer);
    {
      MutexLock lock(mu_);
      if (opened.ok()) writer_ = *std::move(writer);
      id_ = id;
    }
    done(opened);
  });
}

absl::Status CheckpointSaver::Write(int64_t id, int slot, int64_t begin, absl::Span<const float> values) {
  std::shared_ptr<CheckpointWriter> writer;
  {
    MutexLock lock(mu_);
    if (id == id_) writer = writer_;
  }
  if (writer == nullptr) return absl::FailedPreconditionError(absl::StrCat("save ", id, " is not open"));
  return writer->Write(slot, begin, values);
}

void CheckpointSaver::Commit(const proto::TrainingState& state, const proto::ModelDescription& description,
                             const MovingStatistics& statistics, std::function<absl::Status()> before,
                             std::function<void(const Committed&)> done) {
  loop_.Post([this, state, description, statistics, before = std::move(before), done = std::move(done)] {
    const std::shared_ptr<CheckpointWriter> writer = Take();
    if (writer == nullptr) {
      return done({.status = absl::UnavailableError("the chief was lost during the save"),
                   .directory = "",
                   .pruned = {}});
    }
    Committed committed{.status = before(), .directory = writer->directory(), .pruned = {}};
    if (committed.status.ok()) {
      committed.status = writer->Commit(state, description, {options_.statistics, statistics});
    }
    if (committed.status.ok()) committed.pruned = Tidy(state);
    done(committed);
  });
}

// Removes old checkpoints, except the best checkpoint, the needed checkpoint and `keep` other checkpoints:
// the checkpoint of `state` and the newest ones.
absl::Status CheckpointSaver::Tidy(const proto::TrainingState& state) {
  std::set<int64_t> spared;
  if (options_.needed.has_value()) spared.insert(*options_.needed);
  absl::optional<int64_t> best;
  if (state.has_best()) spared.insert(*(best = state.best().step()));
  TETHYS_RETURN_IF_ERROR(LinkBest(options_.root, best));
  return PruneCheckpoints(options_.root, options_.keep, state.step(), spared);
}

void CheckpointSaver::Abandon() {
  loop_.Post([this] { Take(); });
}

std::shared_ptr<CheckpointWriter> CheckpointSaver::Take() {
  MutexLock lock(mu_);
  return std::exchange(writer_, nullptr);
}

}  // namespace tethys
