#include "runtime/chief/save_executor.h"

#include <utility>

#include "runtime/base/logging.h"
#include "runtime/chief/chief_input.h"

namespace tethys {

SaveExecutor::SaveExecutor(Options options, const Clock& clock)
    : options_(std::move(options)), saver_(options_.saver, clock) {}

void SaveExecutor::EndRepeat(const proto::ModelDescription& model) {
  repeating_ = false;
  auto last = std::exchange(unanswered_, {});
  if (auto* const open = absl::get_if<OpenSave>(&last)) Open(std::move(*open));
  if (absl::holds_alternative<CommitSave>(last)) Commit(model);
}

void SaveExecutor::Open(OpenSave action) {
  if (repeating_) {
    unanswered_ = std::move(action);
    return;
  }
  open_ = std::move(action);
  saver_.Open(open_.id, open_.state.step(),
              [this](const absl::Status& status) { options_.answer(SaveOpenedInput(status)); });
}

void SaveExecutor::Commit(const proto::ModelDescription& model) {
  if (repeating_) {
    unanswered_ = CommitSave();
    return;
  }
  saver_.Commit(open_.state, model, open_.statistics, options_.sync_journal,
                [this](const CheckpointSaver::Committed& committed) {
                  if (!committed.pruned.ok()) TETHYS_LOG(Error, StatusText(committed.pruned));
                  options_.pruned(committed.pruned);
                  options_.answer(SaveCommittedInput(committed.status, committed.directory));
                });
}

void SaveExecutor::Abandon() {
  unanswered_ = {};
  saver_.Abandon();
}

}  // namespace tethys
