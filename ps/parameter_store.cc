#include "ps/parameter_store.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "runtime/base/control_group.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr size_t kNamedVariables = 3;  // Variables named in an error message.

PushedStep StepOf(const Frame& push) {
  return {.worker = static_cast<int>(push.rank),
          .step = push.step,
          .version = push.base_version,
          .samples = static_cast<int64_t>(push.sample_count),
          .global_samples = push.global_sample_count,
          .position = push.schedule_position};
}

bool SamePush(const Frame& a, const Frame& b) {
  return a.sequence == b.sequence && a.step == b.step && a.global_sample_count == b.global_sample_count &&
         a.sample_begin == b.sample_begin && a.sample_count == b.sample_count &&
         a.schedule_position == b.schedule_position && a.base_version == b.base_version;
}

}  // namespace

ParameterStore::ParameterStore(StoreConfig config, ShardLayout layout, std::unique_ptr<Optimizer> optimizer,
                               Stream& stream)
    : config_(std::move(config)),
      layout_(std::move(layout)),
      rule_(CreateRule(config_.parameter_server, config_.workers, config_.global_batch)),
      lock_step_(rule_->lock_step()),
      ordered_(config_.parameter_server.bulk_synchronous().summation() == proto::BulkSynchronous::ORDERED),
      answers_with_values_(!PullsBeforeStep(config_.parameter_server)),
      optimizer_(std::move(optimizer)),
      stream_(stream),
      inboxes_(config_.workers),
      arrived_(config_.workers, lock_step_ ? layout_.local_size() : 0),
      all_workers_(config_.workers) {
  std::iota(all_workers_.begin(), all_workers_.end(), 0);
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
  slots_.resize(config_.slots.size());
  std::vector<Arena*> arenas = {&parameters_};
  for (Arena& slot : slots_) arenas.push_back(&slot);
  if (lock_step_) arenas.push_back(&sum_);
  for (const int worker : all_workers_) {
    if (Stages(worker)) arenas.push_back(&inboxes_[worker].staging);
  }
  const int64_t installed = WithinGroup(InstalledMemory());
  const auto count = static_cast<int64_t>(arenas.size());
  constexpr int64_t kFloatsPerMebibyte = (1 << 20) / sizeof(float);
  // Linux may grant more memory than the machine has, and then kills the process that touches it.
  bool fits = layout_.local_size() <= installed / static_cast<int64_t>(sizeof(float)) / count;
  for (Arena* arena : arenas) {
    if (!fits) break;
    absl::StatusOr<Arena> allocated = Arena::Allocate(layout_.local_size());
    fits = allocated.ok();
    if (fits) *arena = *std::move(allocated);
  }
  if (!fits) {
    const int64_t gradients = count - 1 - static_cast<int64_t>(slots_.size());
    return absl::ResourceExhaustedError(absl::StrCat(
        "server ", config_.server, " needs ", count, " times ", layout_.local_size() / kFloatsPerMebibyte,
        " MiB of memory (parameters, optimizer slots: ", slots_.size(),
        ", gradients that wait for their update: ", gradients, "), and this host has ", installed >> 20,
        " MiB in all: share the parameters among more servers (strategy.parameter_server.servers) on more "
        "hosts, or take a smaller model"));
  }
  for (Arena& slot : slots_) slot_pointers_.push_back(slot.data());
  return ForEachShard([this](int slot, int64_t, absl::Span<float> values) {
    if (slot > 0) std::fill(values.begin(), values.end(), config_.slots[slot - 1].initial_value);
    return absl::OkStatus();
  });
}

std::string ParameterStore::Who(const Frame& frame) const {
  return absl::StrCat("server ", config_.server, " refuses worker ", frame.rank, ", step ", frame.step, ": ");
}

// ------------------------------------------------------------------------------------------- admission

absl::Status ParameterStore::Admit(const Frame& frame) {
  if (frame.rank >= inboxes_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(frame), "the job has ", inboxes_.size(), " workers, indices from 0"));
  }
  if (frame.generation != config_.generation) {
    return absl::FailedPreconditionError(absl::StrCat(Who(frame), "its generation is ", frame.generation,
                                                      ", the job's is ", config_.generation, ": join again"));
  }
  PushInbox& inbox = inboxes_[frame.rank];
  if (frame.incarnation < inbox.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(Who(frame), "its incarnation is ", frame.incarnation,
                                                      ", but incarnation ", inbox.incarnation,
                                                      " has taken its place"));
  }
  if (frame.incarnation > inbox.incarnation) {
    if (inbox.push.sequence != 0) {
      return LostWithinStep(inbox);
    }
    Replace(static_cast<int>(frame.rank), frame.incarnation);
  }
  return absl::OkStatus();
}

void ParameterStore::Replace(int worker, uint32_t incarnation) {
  PushInbox& inbox = inboxes_[worker];
  inbox.ForgetPush();
  inbox.pulls.clear();
  inbox.incarnation = incarnation;
  inbox.applied = Frame{};
  inbox.staleness = 0;
  rule_->Replaced(worker);
}

absl::Status ParameterStore::LostWithinStep(const PushInbox& inbox) const {
  return absl::FailedPreconditionError(absl::StrCat(Who(inbox.push), "incarnation ", inbox.incarnation,
                                                    " was lost in the middle of step ", inbox.push.step,
                                                    ": resume the job from its checkpoint"));
}

absl::Status ParameterStore::CheckPush(const Frame& frame, PayloadPieces payload) const {
  const uint64_t expected = frame.sample_count == 0 ? 0 : frame.range_count * sizeof(float);
  if (frame.dtype != FrameDType::kFloat32 || frame.payload_bytes != expected ||
      PayloadBytes(payload) != static_cast<int64_t>(expected)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(frame), frame.range_count, " gradients over ", frame.sample_count, " samples take ",
                     expected, " bytes of float32, its message has ", PayloadBytes(payload)));
  }
  if (frame.sample_count > static_cast<uint64_t>(config_.global_batch)) {
    return absl::InvalidArgumentError(absl::StrCat(Who(frame), "its gradients are sums over ",
                                                   frame.sample_count, " samples, the global batch is ",
                                                   config_.global_batch));
  }
  return inboxes_[frame.rank].push.sequence == 0 ? CheckFirstPart(frame) : CheckNextPart(frame);
}

absl::Status ParameterStore::CheckFirstPart(const Frame& frame) const {
  const Frame& applied = inboxes_[frame.rank].applied;
  if (frame.sequence != applied.sequence + 1) {
    return absl::OutOfRangeError(
        absl::StrCat(Who(frame), "expected push ", applied.sequence + 1, ", got push ", frame.sequence));
  }
  if (const absl::Status follows = rule_->Check(StepOf(frame), static_cast<uint64_t>(version_));
      !follows.ok()) {
    return absl::Status(follows.code(), absl::StrCat(Who(frame), follows.message()));
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::CheckNextPart(const Frame& frame) const {
  const Frame& push = inboxes_[frame.rank].push;
  if (SamePush(frame, push)) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(Who(frame), "push ", push.sequence, " of step ", push.step,
                                            " is not complete, and push ", frame.sequence, " of step ",
                                            frame.step, " is not a part of it"));
}

absl::Status ParameterStore::CheckOverlap(const Frame& frame, Range local) const {
  const PushParts::Part* part = inboxes_[frame.rank].parts.FindOverlap(local);
  if (part == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Who(frame), "range [", frame.range_begin, ", +",
                                                 frame.range_count, ") overlaps [", part->arena.begin, ", +",
                                                 part->arena.count, "), which it sent before"));
}

// ---------------------------------------------------------------------------------------------- events

absl::Status ParameterStore::OnPush(const Frame& frame, PayloadPieces payload, StoreActions& actions) {
  TETHYS_RETURN_IF_ERROR(broken_);
  TETHYS_RETURN_IF_ERROR(Admit(frame));
  TETHYS_ASSIGN_OR_RETURN(const Range local, layout_.ToLocal(frame.range_begin, frame.range_count));
  PushInbox& inbox = inboxes_[frame.rank];
  if (frame.sequence != 0 && frame.sequence == inbox.applied.sequence) {
    actions.Reply(AnswerTo(frame, local));
    return absl::OkStatus();
  }
  TETHYS_RETURN_IF_ERROR(CheckPush(frame, payload));
  if (const PushParts::Part* repeated = inbox.parts.Find(local)) {
    if (repeated->answered) actions.Reply(AnswerTo(frame, local));
    return absl::OkStatus();
  }
  TETHYS_RETURN_IF_ERROR(CheckOverlap(frame, local));
  // Repeated parts have already returned. Their values may have changed, so their checksums are not checked.
  if (const absl::Status intact = CheckPayload(frame, payload); !intact.ok()) {
    return absl::Status(intact.code(), absl::StrCat(Who(frame), intact.message()));
  }

  if (inbox.push.sequence == 0) rule_->Open(StepOf(frame));
  inbox.push = frame;
  if (!TakePart(frame, local, payload)) return Break(NotFinite(frame), actions);
  const int worker = static_cast<int>(frame.rank);
  if (lock_step_) return UpdateArrived(worker, local, actions);
  return Complete(inbox) ? GoOn(rule_->Arrived(worker), actions) : absl::OkStatus();
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
  if (inbox.pulls.empty() || !rule_->MayBegin(worker, inbox.pulls.begin()->second.step)) return;
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
    return absl::InvalidArgumentError(absl::StrCat("server ", config_.server, ": a fence for worker ",
                                                   fence.worker(), ", the job has ", inboxes_.size()));
  }
  const PushInbox& inbox = inboxes_[fence.worker()];
  if (fence.incarnation() > inbox.incarnation) {
    if (lock_step_ && inbox.push.sequence != 0) return LostWithinStep(inbox);
    Replace(fence.worker(), fence.incarnation());
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

absl::Status ParameterStore::NotFinite(const Frame& frame) const {
  const Range arena{static_cast<int64_t>(frame.range_begin), static_cast<int64_t>(frame.range_count)};
  std::vector<std::string> variables;
  for (const ShardLayout::Shard& shard : layout_.shards()) {
    const bool among = shard.arena.begin < arena.end() && arena.begin < shard.arena.end();
    if (among && (variables.empty() || variables.back() != shard.variable)) {
      variables.push_back(shard.variable);
    }
  }
  const size_t more = variables.size() - std::min(variables.size(), kNamedVariables);
  variables.resize(variables.size() - more);
  return absl::FailedPreconditionError(
      absl::StrCat(Who(frame), "a gradient, or its sum with those of other workers, is NaN or infinite (in ",
                   absl::StrJoin(variables, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "",
                   "); the step is not applied. Lower optimizer.learning_rate, or check the data"));
}

absl::Status ParameterStore::Break(absl::Status reason, StoreActions& actions) {
  broken_ = reason;
  actions.Fail(reason);
  return reason;
}

// ----------------------------------------------------------------------------------------------- parts

bool ParameterStore::TakePart(const Frame& frame, Range local, PayloadPieces payload) {
  PushInbox& inbox = inboxes_[frame.rank];
  const int64_t elements = layout_.ElementsIn(local);
  inbox.parts.Add(
      {.arena = {static_cast<int64_t>(frame.range_begin), local.count}, .local = local, .waiting = elements});
  inbox.received += elements;
  // A push without samples adds nothing.
  const bool has_samples = frame.sample_count > 0;
  float* sum = lock_step_ ? sum_.data() + local.begin : nullptr;
  if (lock_step_ && !ordered_) return !has_samples || AddPayload(payload, local.count, sum);
  if (lock_step_ && frame.rank == 0) {
    if (has_samples) return CopyPayload(payload, local.count, sum);
    std::fill(sum, sum + local.count, 0.0f);
    return true;
  }
  if (!has_samples) return true;
  return CopyPayload(payload, local.count, inbox.staging.data() + local.begin);
}

// ---------------------------------------------------------------------------------------------- update

absl::StatusOr<Update> ParameterStore::MakeUpdate(const Frame& push, int64_t divisor) const {
  if (divisor <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(push), "no worker has a sample: nothing to divide the sum by"));
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
    const int64_t staleness = before - static_cast<int64_t>(inboxes_[worker].push.base_version);
    stalest = std::max(stalest, staleness);
    Record(worker, staleness, actions);
  }
  ++staleness_histogram_[stalest];
}

void ParameterStore::MarkUpdated(int worker, Range local, StoreActions* actions) {
  inboxes_[worker].parts.ForEachIn(local, [&](PushParts::Part& part) {
    part.waiting -= layout_.ElementsIn(Intersection(part.local, local));
    if (part.waiting == 0 && actions != nullptr) Answer(worker, part, *actions);
  });
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

void ParameterStore::Record(int worker, int64_t staleness, StoreActions& actions) {
  PushInbox& inbox = inboxes_[worker];
  inbox.applied = inbox.push;
  inbox.staleness = staleness;
  proto::AppliedPush record;
  record.set_worker(worker);
  record.set_incarnation(inbox.incarnation);
  record.set_sequence(static_cast<int64_t>(inbox.applied.sequence));
  record.set_sample_begin(static_cast<int64_t>(inbox.applied.sample_begin));
  record.set_sample_count(static_cast<int64_t>(inbox.applied.sample_count));
  record.set_version(version_);
  record.set_staleness(staleness);
  actions.Record(record);
}

// ----------------------------------------------------------------------------------------- checkpoints

absl::Status ParameterStore::ForEachShard(ShardFunction function) {
  if (updated_ > 0 || HoldsStep()) {
    return absl::FailedPreconditionError(absl::StrCat("server ", config_.server, " has not completed update ",
                                                      version_ + 1,
                                                      ": parameters are read and written at barriers only"));
  }
  for (int slot = 0; slot <= static_cast<int>(slots_.size()); ++slot) {
    Arena& arena = slot == 0 ? parameters_ : slots_[slot - 1];
    for (const ShardLayout::Shard& shard : layout_.shards()) {
      TETHYS_RETURN_IF_ERROR(function(slot, shard.arena.begin, arena.Slice(shard.local)));
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterStore::SetVersion(int64_t version) {
  for (const PushInbox& inbox : inboxes_) {
    if (inbox.push.sequence == 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(Who(inbox.push), "its push is incomplete: versions are set at barriers only"));
  }
  version_ = version;
  return absl::OkStatus();
}

}  // namespace tethys
