#include "ps/parameter_store.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ps/store_memory.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

PushedGradients::Summation SummationOf(const proto::ParameterServer& servers, bool lock_step) {
  if (!lock_step) return PushedGradients::Summation::kWhole;
  return servers.bulk_synchronous().summation() == proto::BulkSynchronous::ORDERED
             ? PushedGradients::Summation::kByRank
             : PushedGradients::Summation::kByArrival;
}

}  // namespace

ParameterStore::ParameterStore(StoreConfig config, ShardLayout layout, std::unique_ptr<Optimizer> optimizer,
                               Stream& stream)
    : config_(std::move(config)),
      layout_(std::move(layout)),
      most_workers_(config_.workers.size()),
      rule_(CreateRule(config_.parameter_server, static_cast<int>(most_workers_), config_.global_batch)),
      lock_step_(rule_->lock_step()),
      answers_with_values_(!PullsBeforeStep(config_.parameter_server)),
      checks_(config_),
      state_(layout_, config_.slots, std::move(optimizer), stream, keeps_undo()),
      gradients_(static_cast<int>(most_workers_), SummationOf(config_.parameter_server, lock_step_)),
      arrived_(static_cast<int>(most_workers_), lock_step_ ? layout_.local_size() : 0),
      norms_(config_, lock_step_, layout_, checks_) {
  Serve(config_.workers);
}

void ParameterStore::Serve(const std::vector<int>& workers) {
  const auto count = static_cast<int>(workers.size());
  config_.workers = workers;
  rule_ = CreateRule(config_.parameter_server, count, config_.global_batch);
  all_workers_.resize(count);
  std::iota(all_workers_.begin(), all_workers_.end(), 0);
  inboxes_.assign(count, {});
  for (int rank = 0; rank < count; ++rank) inboxes_[rank].worker = workers[rank];
  arrived_ = ArrivalCount(count, lock_step_ ? layout_.local_size() : 0);
}

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(StoreConfig config, ShardLayout layout,
                                                                       std::unique_ptr<Optimizer> optimizer,
                                                                       Stream& stream) {
  std::unique_ptr<ParameterStore> store(
      new ParameterStore(std::move(config), std::move(layout), std::move(optimizer), stream));
  TETHYS_RETURN_IF_ERROR(store->Allocate());
  return store;
}

absl::Status ParameterStore::Allocate() {
  std::vector<Arena*> arenas = state_.arenas();
  for (Arena* arena : gradients_.arenas()) arenas.push_back(arena);
  TETHYS_RETURN_IF_ERROR(AllocateForStore(
      config_.server, layout_.local_size(), arenas,
      absl::StrCat(
          "parameters, optimizer slots: ", config_.slots.size(),
          keeps_undo() ? ", a copy of parameters and slots, which elastic { on_loss: END } avoids" : "",
          ", gradients that wait for their update: ", gradients_.arenas().size())));
  state_.Initialize();
  return absl::OkStatus();
}

// ---------------------------------------------------------------------------------------------- events

absl::Status ParameterStore::Admit(const Frame& frame) {
  TETHYS_RETURN_IF_ERROR(checks_.CheckSender(frame));
  const PushInbox& inbox = inboxes_[frame.rank];
  TETHYS_RETURN_IF_ERROR(checks_.CheckIncarnation(frame, inbox));
  if (frame.incarnation > inbox.incarnation) {
    if (inbox.has_push()) return checks_.LostWithinStep(inbox);
    Replace(static_cast<int>(frame.rank), frame.incarnation);
  }
  return absl::OkStatus();
}

void ParameterStore::Replace(int worker, uint32_t incarnation) {
  inboxes_[worker].Replace(incarnation);
  rule_->Replaced(worker);
  ForgetCopied(worker);
}

absl::Status ParameterStore::OnPush(const Frame& frame, PayloadPieces payload, StoreActions& actions) {
  TETHYS_RETURN_IF_ERROR(broken_);
  TETHYS_RETURN_IF_ERROR(Admit(frame));
  TETHYS_ASSIGN_OR_RETURN(const Range local, layout_.ToLocal(frame.range_begin, frame.range_count));
  PushInbox& inbox = inboxes_[frame.rank];
  if (frame.sequence != 0 && frame.sequence == inbox.applied.sequence) {
    // Until the copy has the update, the push stays in the inbox, and only parts that have been answered are
    // answered again.
    const PushParts::Part* const part = inbox.parts.Find(local);
    if (!inbox.has_push() || (part != nullptr && part->answered)) actions.Reply(AnswerTo(frame, local));
    return absl::OkStatus();
  }
  TETHYS_RETURN_IF_ERROR(checks_.CheckPart(frame, payload, inbox, *rule_, version_));
  if (const PushParts::Part* repeated = inbox.parts.Find(local)) {
    if (repeated->answered) actions.Reply(AnswerTo(frame, local));
    return absl::OkStatus();
  }
  TETHYS_RETURN_IF_ERROR(checks_.CheckOverlap(frame, local, inbox));
  // The checksum of a repeated part is not checked (OnPush has returned above), because the values of the
  // part may have changed.
  TETHYS_RETURN_IF_ERROR(checks_.CheckIntact(frame, payload));

  if (!inbox.has_push()) rule_->Open(StepOf(frame));
  inbox.Add(frame, local, layout_.ElementsIn(local));
  const int worker = static_cast<int>(frame.rank);
  if (!gradients_.Take(worker, frame.sample_count > 0, local, payload)) {
    return Break(checks_.NotFinite(frame, layout_), actions);
  }
  if (lock_step_) return UpdateArrived(worker, local, actions);
  if (inbox.received < layout_.element_count()) return absl::OkStatus();
  return copies_pushes() ? TakeEvent({worker}, actions) : GoOn(rule_->Arrived(worker), actions);
}

absl::Status ParameterStore::OnPull(const Frame& frame, StoreActions& actions) {
  TETHYS_RETURN_IF_ERROR(broken_);
  TETHYS_RETURN_IF_ERROR(Admit(frame));
  TETHYS_ASSIGN_OR_RETURN(const Range local, layout_.ToLocal(frame.range_begin, frame.range_count));
  PushInbox& inbox = inboxes_[frame.rank];
  if (!inbox.pulls.empty() && inbox.pulls.begin()->second.sequence != frame.sequence) inbox.pulls.clear();
  inbox.pulls[local.begin] = frame;
  AnswerPulls(static_cast<int>(frame.rank), actions);
  return absl::OkStatus();
}

void ParameterStore::AnswerPulls(int worker, StoreActions& actions) {
  PushInbox& inbox = inboxes_[worker];
  if (copied_.open || inbox.pulls.empty() || !rule_->MayBegin(worker, inbox.pulls.begin()->second.step))
    return;
  for (const auto& [begin, frame] : std::exchange(inbox.pulls, {})) {
    ParameterReply reply = AnswerTo(frame, layout_.ToLocal(frame.range_begin, frame.range_count).value());
    reply.staleness = 0;
    reply.sum_square = 0;
    reply.with_values = true;
    actions.Reply(reply);
  }
}

absl::Status ParameterStore::OnFence(const proto::Fence& fence, StoreActions& actions) {
  if (fence.worker() < 0 || fence.worker() >= static_cast<int>(inboxes_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("server ", config_.server, " received a fence for worker ",
                                                   fence.worker(), ", but the job has ", inboxes_.size(),
                                                   " workers"));
  }
  const PushInbox& inbox = inboxes_[fence.worker()];
  if (fence.incarnation() > inbox.incarnation) {
    if (lock_step_ && inbox.has_push()) return checks_.LostWithinStep(inbox);
    Replace(fence.worker(), fence.incarnation());
  }
  if (copies_pushes()) {
    return broken_.ok() ? TakeEvent({fence.worker(), fence}, actions) : absl::OkStatus();
  }
  const auto clock = static_cast<uint64_t>(std::max<int64_t>(fence.clock(), 0));
  const std::vector<DueUpdate>& due = rule_->TakesPart(fence.worker(), fence.takes_part(), clock);
  return broken_.ok() && !lock_step_ ? GoOn(due, actions) : absl::OkStatus();
}

ParameterReply ParameterStore::AnswerTo(const Frame& frame, Range local) const {
  return {.worker = static_cast<int>(frame.rank),
          .sequence = frame.sequence,
          .step = frame.step,
          .arena = {static_cast<int64_t>(frame.range_begin), static_cast<int64_t>(frame.range_count)},
          .local = local,
          .version = updated_ > 0 ? version_ + 1 : version_,
          .staleness = inboxes_[frame.rank].staleness,
          .sum_square = sum_square_,
          .with_values = answers_with_values_};
}

absl::Status ParameterStore::Break(absl::Status reason, StoreActions& actions) {
  broken_ = reason;
  actions.Fail(reason);
  return reason;
}

// -------------------------------------------------------------------------------- updates and answers

absl::StatusOr<Update> ParameterStore::MakeUpdate(const Frame& push, int64_t divisor) const {
  if (divisor <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(checks_.Who(push), "no worker has a sample: nothing to divide the sum by"));
  }
  return Update{.learning_rate = config_.schedule.At(static_cast<int64_t>(push.schedule_position)),
                .gradient_scale = 1.0 / static_cast<double>(divisor),
                .number = version_ + 1,
                .gradients_are_finite = true};
}

void ParameterStore::CountUpdate(absl::Span<const int> workers, StoreActions& actions) {
  const int64_t before = version_++;
  int64_t stalest = 0;
  for (const int worker : workers) {
    PushInbox& inbox = inboxes_[worker];
    const int64_t staleness = before - static_cast<int64_t>(inbox.push.base_version);
    stalest = std::max(stalest, staleness);
    NoteApplied(inbox.Apply(version_, staleness), actions);
  }
  ++staleness_histogram_[stalest];
}

void ParameterStore::NoteApplied(const proto::AppliedPush& push, StoreActions& actions) {
  copies_pushes() ? copied_.records.push_back(push) : actions.Record(push);
}

void ParameterStore::AnswerUpdated(int worker, Range local, StoreActions& actions) {
  inboxes_[worker].MarkUpdated(layout_, local, [&](PushParts::Part& part) { Answer(worker, part, actions); });
}

void ParameterStore::Answer(int worker, PushParts::Part& part, StoreActions& actions) {
  if (part.answered) return;
  part.answered = true;
  Frame frame = inboxes_[worker].push;
  frame.range_begin = static_cast<uint64_t>(part.arena.begin);
  frame.range_count = static_cast<uint64_t>(part.arena.count);
  actions.Reply(AnswerTo(frame, part.local));
}

void ParameterStore::EndPush(int worker, StoreActions& actions) {
  for (PushParts::Part& part : inboxes_[worker].parts.in_order()) Answer(worker, part, actions);
  inboxes_[worker].ForgetPush();
  rule_->Close(worker);
}

// ----------------------------------------------------------------------------------------- checkpoints

absl::Status ParameterStore::ForEachShard(ShardState::ShardFunction function) {
  if (updated_ > 0 || norms_.holds_step()) {
    return absl::FailedPreconditionError(absl::StrCat("server ", config_.server, " has not completed update ",
                                                      version_ + 1,
                                                      ": parameters are read and written at barriers only"));
  }
  return state_.ForEachShard(function);
}

absl::Status ParameterStore::SetVersion(int64_t version) {
  for (const PushInbox& inbox : inboxes_) {
    if (!inbox.has_push()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        checks_.Who(inbox.push),
        "the worker's push is incomplete, but versions are set only at barriers, where no push is open"));
  }
  version_ = version;
  state_.ForgetUndo();
  return absl::OkStatus();
}

absl::Status ParameterStore::StepBack(int64_t version, uint32_t generation, const std::vector<int>& workers) {
  TETHYS_RETURN_IF_ERROR(broken_);
  if (workers.empty() || workers.size() > most_workers_) {
    return absl::InvalidArgumentError(absl::StrCat("server ", config_.server, " is told to serve ",
                                                   workers.size(), " workers, but the job has from 1 to ",
                                                   most_workers_));
  }
  if (generation <= config_.generation) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", config_.server, " is told to step back under generation ", generation,
                     ", but its generation is ", config_.generation, "; the new generation must be later"));
  }
  // True if the last complete update must be taken back.
  const bool whole = version == version_ - 1 && state_.undo_number() == version_;
  const bool empty = layout_.shards().empty();
  if (!keeps_undo() || (version != version_ && !whole && !empty)) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", config_.server, " cannot step back from version ", version_, " to version ",
                     version, keeps_undo() ? "" : ": it keeps no copy of the earlier state"));
  }
  const bool begun = state_.undo_number() == version_ + 1;
  if (whole || begun) state_.TakeBack();
  if (whole) --staleness_histogram_[0];
  version_ = version;
  updated_ = 0;
  uncopied_.reset();
  norms_.Drop();
  gradients_.ForgetAll();
  Serve(workers);
  config_.generation = generation;
  return absl::OkStatus();
}

}  // namespace tethys
