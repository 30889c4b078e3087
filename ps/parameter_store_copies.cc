// Copies of the shards of a store that applies whole pushes (StoreConfig::copied). A push counts as applied
// once the copy contains its update: only then is it recorded and answered. So the server that replaces a
// lost one has every push that was recorded or answered, and the workers repeat all others.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps/parameter_store.h"

namespace tethys {

absl::Status ParameterStore::TakeEvent(const CopiedPushes::Event& event, StoreActions& actions) {
  if (copied_.open) {
    copied_.waiting.push_back(event);
    return absl::OkStatus();
  }
  TETHYS_RETURN_IF_ERROR(ApplyForCopy(event, actions));
  CopyOrAnswer(actions);
  return absl::OkStatus();
}

absl::Status ParameterStore::ApplyForCopy(const CopiedPushes::Event& event, StoreActions& actions) {
  const std::vector<DueUpdate>& due =
      event.fence.has_value()
          ? rule_->TakesPart(event.worker, event.fence->takes_part(),
                             static_cast<uint64_t>(std::max<int64_t>(event.fence->clock(), 0)))
          : rule_->Arrived(event.worker);
  for (const DueUpdate& update : due) {
    TETHYS_RETURN_IF_ERROR(ApplyTogether(update, /*answer_parts=*/false, actions));
    for (const int worker : update.workers) {
      rule_->Close(worker);
      copied_.unanswered.push_back(worker);
    }
  }
  return absl::OkStatus();
}

void ParameterStore::CopyOrAnswer(StoreActions& actions) {
  if (copied_.records.empty()) {
    for (const int worker : all_workers_) AnswerPulls(worker, actions);
    return;
  }
  ++copied_.number;
  copied_.open = true;
  proto::PushBook book = Book();
  for (const proto::AppliedPush& push : copied_.records) {
    *book.add_push() = push;
    copied_.log.Add(push);
  }
  actions.CopyAll(copied_.number, book);
}

void ParameterStore::OnPushesCopied(int64_t number, StoreActions& actions) {
  if (!copied_.open || number != copied_.number) return;
  copied_.open = false;
  for (const proto::AppliedPush& push : std::exchange(copied_.records, {})) actions.Record(push);
  for (const int worker : std::exchange(copied_.unanswered, {})) EndPush(worker, actions);
  // Pulls are answered before the waiting pushes are applied, so that no worker gets values without a copy.
  for (const int worker : all_workers_) AnswerPulls(worker, actions);
  for (const CopiedPushes::Event& event : std::exchange(copied_.waiting, {})) {
    if (!ApplyForCopy(event, actions).ok()) return;  // The store is broken, and has said so.
  }
  CopyOrAnswer(actions);
}

proto::PushBook ParameterStore::Book() const {
  proto::PushBook book;
  book.set_version(version_);
  for (const PushInbox& inbox : inboxes_) {
    proto::PushBook::Worker& worker = *book.add_worker();
    worker.set_incarnation(inbox.incarnation);
    worker.set_sequence(static_cast<int64_t>(inbox.applied.sequence));
    worker.set_step(static_cast<int64_t>(inbox.applied.step));
    worker.set_staleness(inbox.staleness);
  }
  return book;
}

StoreCopy ParameterStore::OfferCopy() {
  copied_.open = true;
  StoreCopy copy{.number = copied_.number, .book = Book()};
  copy.book.set_whole(true);
  for (const proto::AppliedPush& push : copied_.log.pushes()) *copy.book.add_push() = push;
  return copy;
}

absl::Status ParameterStore::TakeBook(const StoreCopy& copy) {
  const proto::PushBook& book = copy.book;
  if (book.worker_size() != static_cast<int>(inboxes_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("server ", config_.server,
                                                   ": the copy of its shards is of ", book.worker_size(),
                                                   " workers, but the job has ", inboxes_.size()));
  }
  TETHYS_RETURN_IF_ERROR(SetVersion(book.version()));
  copied_ = CopiedPushes{.number = copy.number};
  for (const proto::AppliedPush& push : book.push()) copied_.log.Add(push);
  for (const int rank : all_workers_) {
    const proto::PushBook::Worker& worker = book.worker(rank);
    PushInbox& inbox = inboxes_[rank];
    inbox.Replace(worker.incarnation());
    rule_->Replaced(rank);
    if (worker.sequence() == 0) continue;
    inbox.applied.sequence = static_cast<uint64_t>(worker.sequence());
    inbox.applied.step = static_cast<uint64_t>(worker.step());
    inbox.staleness = worker.staleness();
    rule_->TakesPart(rank, true, static_cast<uint64_t>(worker.step()) + 1);
  }
  return absl::OkStatus();
}

void ParameterStore::ForgetCopied(int worker) {
  const auto is = [worker](int other) { return other == worker; };
  copied_.unanswered.erase(std::remove_if(copied_.unanswered.begin(), copied_.unanswered.end(), is),
                           copied_.unanswered.end());
  const auto arrived = [worker](const CopiedPushes::Event& event) {
    return event.worker == worker && !event.fence.has_value();
  };
  copied_.waiting.erase(std::remove_if(copied_.waiting.begin(), copied_.waiting.end(), arrived),
                        copied_.waiting.end());
}

}  // namespace tethys
