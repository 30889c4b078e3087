#include "tests/simulation/simulated_server.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/cluster/group_place.h"
#include "runtime/cluster/job_plan.h"
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
  if (store_ == nullptr) {
    LeaveUnlessOk(BeginStore());
  } else {
    const int64_t version = world().Misbehaves(Fault::kKeepsStep, 1) ? store_->version() : form.step();
    LeaveUnlessOk(store_->StepBack(version, generation_, WorkersIn(form.group())));
    world().invariants().OnStepBack(id().index, version);
  }
  if (!alive()) return;
  streams_.assign(store_->workers().size(), {});
  serving_ = true;
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
                  .generation = generation_,
                  .slots = SlotsOf(plan.job().optimizer()),
                  .schedule = ScheduleOf(plan),
                  .parameter_server = plan.job().strategy().parameter_server(),
                  .global_batch = plan.global_batch(),
                  .keeps_undo = FormsNewGroups(plan)},
      std::move(layout), CreateExactOptimizer(model, std::move(regions)), HostStream());
  TETHYS_RETURN_IF_ERROR(store.status());
  store_ = *std::move(store);
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

void SimulatedServer::Halt() {
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
  if (store_ != nullptr && !store_->layout().shards().empty()) halted.set_applied(store_->version());
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
  Beat();
  if (!world().Misbehaves(Fault::kEarlyFenced, 1)) Send(answer);
  Finished();
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

// ----------------------------------------------------------------------------------------------- streams

void SimulatedServer::OnConnection(SimulatedWorker& worker, const std::shared_ptr<Connection>& connection) {
  if (!serving_) return connection->Close(*this, absl::UnavailableError("the server is not ready yet"));
  const std::vector<int>& workers = store_->workers();
  const auto place = std::find(workers.begin(), workers.end(), worker.id().index);
  const auto rank = place - workers.begin();
  const bool old = worker.generation() != generation_ || place == workers.end();
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
  world().disturbances().Reach(Point::kApplying, {this, streams_[rank].worker});
}

void SimulatedServer::Reply(const ParameterReply& reply) {
  const auto& [connection, worker] = streams_[reply.worker];
  if (connection == nullptr) return;
  const Frame frame = AnswerFrame(reply, generation_);
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
