#include "tests/simulation/simulated_server.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/cluster/group_place.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/membership.h"
#include "runtime/shape/job_shape.h"
#include "tests/ps/parameter_store_doubles.h"
#include "tests/simulation/simulated_worker.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

NoStream& HostStream() {
  static NoStream stream;  // Shared by all servers, because it has no state.
  return stream;
}

}  // namespace

void SimulatedServer::Work() {
  const proto::ToTask& duty = course_.duty();
  const Nanoseconds time = world().random().Delay(kMillisecond);
  if (duty.has_setup()) {
    setup_ = duty.setup();
    return After(time, [this] {
      proto::FromTask ready;
      ready.mutable_ready();
      Send(ready);
      Finished();
    });
  }
  if (duty.has_form()) return After(time, [this] { JoinGroup(); });
  if (duty.has_halt()) return After(time / 4, [this] { Halt(); });
  if (duty.has_fence()) return After(time / 4, [this] { Fence(); });
  After(time, [this] { Save(); });
}

void SimulatedServer::JoinGroup() {
  world().disturbances().Reach(store_ == nullptr ? Point::kSettingUp : Point::kForming, {this});
  const proto::Form& form = course_.duty().form();
  generation_ = form.group().generation();
  const bool replaces = generation_ > 1;  // Replaces a lost server, if this is the server's first group.
  const bool first = store_ == nullptr;
  if (first) {
    has_values_ =
        std::find(form.restored().begin(), form.restored().end(), id().index) == form.restored().end();
    LeaveUnlessOk(BeginStore());
    if (!alive()) return;
  }
  if ((!first || replaces) && !leases()) {
    if (!has_values_) LeaveUnlessOk(store_->SetVersion(form.step()));
    const int64_t version = world().Misbehaves(Fault::kKeepsStep, 1) ? store_->version() : form.step();
    LeaveUnlessOk(store_->StepBack(version, generation_, WorkersIn(form.group())));
    world().invariants().OnStepBack(id().index, version);
    if (kept_ != nullptr) kept_->StepBack(version);
  }
  if (!alive()) return;
  takes_copies_of_ = generation_;
  streams_.assign(store_->workers().size(), {});
  if (kept_ == nullptr) return SayFormed();
  ExchangeCopies();
}

bool SimulatedServer::leases() const { return TraitsOf(setup_.plan().job()).leases(); }

uint32_t SimulatedServer::worker_generation() const {
  return leases() ? Membership::kFirstGeneration : generation_;
}

void SimulatedServer::SayFormed() {
  joining_ = false;
  for (const proto::Fence& fence : course_.duty().form().fence()) {
    if (!world().Misbehaves(Fault::kForgetsFences, 1)) LeaveUnlessOk(store_->OnFence(fence, *this));
  }
  if (!has_values_) Beat();
  has_values_ = serving_ = true;
  proto::FromTask formed;
  formed.mutable_formed()->set_generation(generation_);
  Send(formed);
  world().disturbances().Reach(Point::kFormed, {this, &world().chief()});
  Finished();
}

absl::Status SimulatedServer::BeginStore() {
  const proto::JobPlan& plan = setup_.plan();
  const SmallModel& model = world().model();
  std::vector<int> workers(plan.job().workers());
  std::iota(workers.begin(), workers.end(), 0);
  ShardLayout layout = *ShardLayout::Create(plan.placement(), id().index, model.arena_size());
  std::vector<Range> regions;
  for (const ShardLayout::Shard& shard : layout.shards()) regions.push_back(shard.local);
  absl::StatusOr<std::unique_ptr<ParameterStore>> store = ParameterStore::Create(
      StoreConfig{.server = id().index,
                  .workers = std::move(workers),
                  .generation = generation_ > 1 && !leases() ? 0 : worker_generation(),
                  .slots = SlotsOf(plan.job().optimizer()),
                  .schedule = ScheduleOf(plan),
                  .parameter_server = plan.job().strategy().parameter_server(),
                  .global_batch = plan.global_batch(),
                  .keeps_undo = FormsNewGroups(plan),
                  .copied = CopiesShards(plan)},
      std::move(layout), CreateExactOptimizer(model, std::move(regions)), HostStream());
  TETHYS_RETURN_IF_ERROR(store.status());
  store_ = *std::move(store);
  if (CopiesShards(plan)) {
    TETHYS_ASSIGN_OR_RETURN(kept_, NewCopy(PrimaryOf(plan.placement(), id().index)));
  }
  if (!has_values_) return absl::OkStatus();
  if (setup_.restore()) TETHYS_RETURN_IF_ERROR(store_->SetVersion(setup_.state().step()));
  TETHYS_RETURN_IF_ERROR(store_->ForEachShard([&](int slot, int64_t begin, absl::Span<float> values) {
    const Values& start = world().start();
    const std::vector<float>& from = slot == 0 ? start.parameters : start.slot;
    std::copy_n(from.begin() + begin, values.size(), values.begin());
    return absl::OkStatus();
  }));
  if (!world().Misbehaves(Fault::kNoBound, 1)) return absl::OkStatus();
  proto::Fence fence;
  fence.set_worker(0);
  return store_->OnFence(fence, *this);
}

absl::StatusOr<std::shared_ptr<ShardCopy>> SimulatedServer::NewCopy(int primary) const {
  const proto::JobPlan& plan = setup_.plan();
  return ShardCopy::Create(*ShardLayout::Create(plan.placement(), primary, world().model().arena_size()),
                           primary, id().index, plan.slot_size(), leases());
}

void SimulatedServer::Halt() {
  if (to_backup_ != nullptr) to_backup_->Stop();
  to_backup_ = nullptr;
  takes_copies_of_ = 0;
  if (!world().Misbehaves(Fault::kServesAfterHalt, 1)) {
    serving_ = false;
    for (WorkerStream& stream : streams_) {
      if (stream.connection != nullptr) {
        stream.connection->Close(*this, absl::UnavailableError("the group was halted"));
      }
      stream = {};
    }
  }
  Beat();
  proto::Halted halted;
  const bool holds = store_ != nullptr && has_values_ && !store_->layout().shards().empty();
  if (holds) halted.set_applied(store_->version());
  if (kept_ != nullptr && kept_->version().has_value()) halted.set_copy(*kept_->version());
  course_.SayHalted(std::move(halted));
  SendAnswers();
  world().disturbances().Reach(Point::kHalting, {this, &world().chief()});
  Finished();
}

void SimulatedServer::Fence() {
  const proto::Fence fence = course_.duty().fence();
  const bool newer = fence.incarnation() > store_->incarnation(fence.worker());
  proto::FromTask answer;
  answer.mutable_fenced()->set_worker(fence.worker());
  answer.mutable_fenced()->set_incarnation(fence.incarnation());
  answer.mutable_fenced()->set_takes_part(fence.takes_part());
  if (world().Misbehaves(Fault::kEarlyFenced, 1)) Send(answer);
  if (newer && !world().Misbehaves(Fault::kNoFence, 1)) {
    WorkerStream& stream = streams_[fence.worker()];
    if (stream.connection != nullptr) {
      stream.connection->Close(*this, absl::FailedPreconditionError("this worker was declared lost"));
      stream = {};
    }
    LeaveUnlessOk(store_->OnFence(fence, *this));
  }
  if (!newer) LeaveUnlessOk(store_->OnFence(fence, *this));
  world().disturbances().Reach(Point::kFencing, {this, &world().chief()});
  on_all_copied_ = [this, answer] {
    Beat();
    if (!world().Misbehaves(Fault::kEarlyFenced, 1)) Send(answer);
    Finished();
  };
  awaited_copy_ = store_->open_copy();
  if (awaited_copy_ > 0 && !world().Misbehaves(Fault::kFencedBeforeCopy, 1)) {
    return halted_ >= generation_ ? OnHalt(proto::Halt()) : void();
  }
  std::exchange(on_all_copied_, nullptr)();
}

void SimulatedServer::Save() {
  Beat();
  std::vector<SavedRange> ranges;
  LeaveUnlessOk(store_->ForEachShard([&](int slot, int64_t begin, absl::Span<float> values) {
    ranges.push_back({slot, begin, {values.begin(), values.end()}});
    return absl::OkStatus();
  }));
  WriteCheckpoint(std::move(ranges));
}

void SimulatedServer::FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) {
  if (store_ == nullptr) return;
  heartbeat.set_step(store_->version());
  if (!applied_.push().empty()) before.emplace_back().mutable_applied()->Swap(&applied_);
}

// ------------------------------------------------------------------------------------------------ copies

void SimulatedServer::OnHalt(const proto::Halt& halt) {
  halted_ = std::max(halted_, halt.generation());
  if (halted_ < generation_) return;
  if (std::exchange(on_all_copied_, nullptr)) {
    course_.OnLeft();
    return Resume();
  }
  if (!joining_) return;
  world().Trace(name(), " leaves group ", generation_, " while it exchanges copies");
  joining_ = false;
  on_taken_ = nullptr;
  for (std::shared_ptr<CopyStream>* stream : {&to_backup_, &to_primary_}) {
    if (*stream != nullptr) (*stream)->Stop();
    *stream = nullptr;
  }
  course_.OnLeft();
  Resume();
}

void SimulatedServer::ExchangeCopies() {
  joining_ = true;
  if (halted_ >= generation_) return After(0, [this] { OnHalt(proto::Halt()); });
  const proto::Form& form = course_.duty().form();
  if (!has_values_) {
    absl::StatusOr<std::shared_ptr<ShardCopy>> own = NewCopy(id().index);
    LeaveUnlessOk(own.status());
    own_ = *std::move(own);
    restored_.reset();
  }
  const auto take = [this] {
    if (has_values_ || world().Misbehaves(Fault::kNotRestored, 1)) return OfferShards();
    on_taken_ = [this] { OfferShards(); };
  };
  const int primary = PrimaryOf(setup_.plan().placement(), id().index);
  const bool gives_back =
      std::find(form.restored().begin(), form.restored().end(), primary) != form.restored().end();
  gives_back ? GiveBack(take) : take();
}

void SimulatedServer::GiveBack(std::function<void()> then) {
  const int primary = PrimaryOf(setup_.plan().placement(), id().index);
  const bool has = leases() ? kept_->version().has_value() : kept_->version() == course_.duty().form().step();
  if (!has) {
    return Leave(absl::FailedPreconditionError(absl::StrCat("server ", primary, " has no copy")));
  }
  to_primary_ = SendTo(primary, primary, [this, then = std::move(then)](int64_t) {
    to_primary_->Stop();
    to_primary_ = nullptr;
    then();
  });
  const StoreCopy copy = leases() ? kept_->Whole() : StoreCopy{.number = *kept_->version()};
  to_primary_->Offer(copy.number, copy.book.SerializeAsString());
}

void SimulatedServer::OfferShards() {
  if (store_->layout().shards().empty()) return SayFormed();
  to_backup_ = SendTo(BackupOf(setup_.plan().placement(), id().index), id().index, [this](int64_t version) {
    OnCopied(version);
    if (joining_) SayFormed();
  });
  const StoreCopy copy = leases() ? store_->OfferCopy() : StoreCopy{.number = course_.duty().form().step()};
  to_backup_->Offer(copy.number, copy.book.SerializeAsString());
  if (world().Misbehaves(Fault::kServesBeforeCopy, 1)) SayFormed();
}

std::shared_ptr<CopyStream> SimulatedServer::SendTo(int receiver, int primary,
                                                    std::function<void(int64_t)> on_copied) {
  CopyStream::Options options;
  options.receiver = receiver;
  options.primary = primary;
  options.generation = generation_;
  options.on_copied = std::move(on_copied);
  if (primary == id().index) {
    options.size = store_->layout().local_size();
    options.arenas = store_->values();
    options.memory = store_;
  } else {
    options.size = kept_->layout().local_size();
    for (int arena = 0; arena < kept_->arenas(); ++arena) options.arenas.push_back(kept_->values(arena));
    options.memory = kept_;
  }
  return std::make_shared<CopyStream>(*this, std::move(options));
}

void SimulatedServer::Copy(Range local, int64_t version) {
  if (to_backup_ != nullptr) to_backup_->Add(version, local);
}

void SimulatedServer::CopyAll(int64_t number, const proto::PushBook& book) {
  if (to_backup_ != nullptr) to_backup_->SendWhole(number, book.SerializeAsString());
  if (world().Misbehaves(Fault::kAnswersPushBeforeCopy, 1)) After(0, [this, number] { OnCopied(number); });
}

void SimulatedServer::OnCopied(int64_t version) {
  store_->OnCopied(version, *this);
  world().invariants().OnVersion(id().index, store_->version());
  if (on_all_copied_ && version >= awaited_copy_) std::exchange(on_all_copied_, nullptr)();
}

void SimulatedServer::OnCopyFrame(const std::shared_ptr<Connection>& connection, const Frame& frame,
                                  const std::string& payload, std::function<void(const Frame&)> answer) {
  const bool own = frame.group == static_cast<uint32_t>(id().index);
  const bool has_own = own && restored_ == static_cast<int64_t>(frame.base_version);
  if (frame.generation != takes_copies_of_ || (!has_own && (own ? own_ : kept_) == nullptr)) {
    return connection->Close(*this, absl::UnavailableError("the server is not ready yet"));
  }
  ShardCopy& copy = own && !has_own ? *own_ : *kept_;
  Frame reply;
  reply.kind = FrameKind::kCopy;
  reply.base_version = frame.base_version;
  reply.range_count = 1;
  if (has_own) {
    // The answer to the last frame may have been lost.
  } else if (frame.sequence == 0) {
    reply.range_count = copy.version() == static_cast<int64_t>(frame.base_version) ? 1 : 0;
  } else {
    const absl::StatusOr<bool> complete = copy.Take(frame, {payload});
    if (!complete.ok()) {
      if (!absl::IsUnavailable(complete.status())) {
        world().Broken(name(), " refuses a copy: ", StatusText(complete.status()));
      }
      return connection->Close(*this, complete.status());
    }
    if (!*complete) return;
    if (own) LeaveUnlessOk(TakeOwnShards());
  }
  connection->Send(*this, [answer = std::move(answer), reply] { answer(reply); });
}

absl::Status SimulatedServer::TakeOwnShards() {
  if (leases()) {
    StoreCopy copy = own_->Whole();
    if (world().Misbehaves(Fault::kForgetsPushes, 1)) {
      for (proto::PushBook::Worker& worker : *copy.book.mutable_worker()) worker.set_sequence(0);
    }
    TETHYS_RETURN_IF_ERROR(store_->TakeBook(copy));
    if (!world().Misbehaves(Fault::kReportsNoneAgain, 1)) {
      for (const proto::AppliedPush& push : store_->push_log().pushes()) *applied_.add_push() = push;
    }
    world().invariants().OnRestore(id().index);
  }
  TETHYS_RETURN_IF_ERROR(store_->ForEachShard([&](int slot, int64_t begin, absl::Span<float> out) {
    TETHYS_ASSIGN_OR_RETURN(const Range local, store_->layout().ToLocal(begin, out.size()));
    std::copy_n(own_->values(slot) + local.begin, local.count, out.begin());
    return absl::OkStatus();
  }));
  restored_ = own_->version();
  own_ = nullptr;
  After(0, [this] {
    if (on_taken_) std::exchange(on_taken_, nullptr)();
  });
  return absl::OkStatus();
}

// ----------------------------------------------------------------------------------------------- streams

void SimulatedServer::OnConnection(SimulatedWorker& worker, const std::shared_ptr<Connection>& connection) {
  if (!serving_) return connection->Close(*this, absl::UnavailableError("the server is not ready yet"));
  const std::vector<int>& workers = store_->workers();
  const auto place = std::find(workers.begin(), workers.end(), worker.id().index);
  const auto rank = place - workers.begin();
  const bool old = worker.generation() != worker_generation() || place == workers.end();
  if (old || worker.incarnation() < store_->incarnation(static_cast<int>(rank))) {
    return connection->Close(*this, absl::FailedPreconditionError("this worker was declared lost"));
  }
  WorkerStream& stream = streams_[rank];
  if (stream.connection != nullptr) {
    stream.connection->Close(*this, absl::AbortedError("a newer connection has taken over"));
  }
  stream = {connection, &worker};
  connection->WhenClosed(*this, [this, closed = std::weak_ptr(connection)](const absl::Status&) {
    for (WorkerStream& other : streams_) {
      if (other.connection == closed.lock()) other = {};
    }
  });
}

void SimulatedServer::OnFrame(const std::shared_ptr<Connection>& connection, const Frame& frame,
                              const std::vector<float>& payload) {
  if (frame.rank >= streams_.size() || streams_[frame.rank].connection != connection) return;
  const absl::string_view bytes(reinterpret_cast<const char*>(payload.data()), frame.payload_bytes);
  absl::Status status =
      frame.kind == FrameKind::kPush ? store_->OnPush(frame, {bytes}, *this) : store_->OnPull(frame, *this);
  world().invariants().OnVersion(id().index, store_->version());
  if (status.ok()) return;
  world().Trace(name(), " refuses: ", StatusText(status));
  connection->Close(*this, status);
  streams_[frame.rank] = {};
}

void SimulatedServer::Record(const proto::AppliedPush& push) {
  if (!world().Misbehaves(Fault::kUnreportedPush, 0.05)) *applied_.add_push() = push;
  const std::vector<int>& workers = store_->workers();
  const auto rank = std::find(workers.begin(), workers.end(), push.worker()) - workers.begin();
  if (world().Misbehaves(Fault::kAnswersBeforeCopy, 1)) {
    After(0, [this] { store_->OnCopied(store_->version(), *this); });
  }
  world().disturbances().Reach(Point::kApplying, {this, streams_[rank].worker});
}

void SimulatedServer::Reply(const ParameterReply& reply) {
  const auto& [connection, worker] = streams_[reply.worker];
  if (connection == nullptr) return;
  const Frame frame = AnswerFrame(reply, worker_generation());
  // In lock step, the values are not copied but read from the store's memory when the answer arrives. The
  // store must not change this memory before then.
  std::vector<float> copy;
  const float* const begin = store_->parameters() + reply.local.begin;
  if (!store_->lock_step()) copy.assign(begin, begin + reply.local.count);
  connection->Send(
      *this, [to = worker, server = id().index, frame, copy, store = store_, local = reply.local.begin] {
        to->on_answer(server, frame, copy.empty() ? store->parameters() + local : copy.data());
      });
  if (store_->lock_step()) world().disturbances().Reach(Point::kApplying, {this, worker});
}

}  // namespace tethys::simulation
