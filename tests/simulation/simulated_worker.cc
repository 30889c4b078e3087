#include "tests/simulation/simulated_worker.h"

#include <utility>

#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/sharding.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

constexpr int kAhead = 3;  // Batches that a loader prefetches.

}  // namespace

Exchange::Then SimulatedWorker::Or(std::function<void()> next) {
  return [this, next = std::move(next)](const absl::Status& status) {
    if (!alive()) return;
    if (!status.ok()) return Leave(status);
    next();
  };
}

void SimulatedWorker::Work() {
  const proto::ToTask& duty = course_.duty();
  if (duty.has_run()) return MakeStep();
  const Nanoseconds time = world().random().Delay(2 * kMillisecond);
  if (duty.has_setup()) return After(time, [this] { Finished(); });
  if (duty.has_form()) return After(time, [this] { JoinGroup(); });
  if (duty.has_evaluate()) return After(time, [this] { Evaluate(); });
  After(time, [this] { Save(); });
}

void SimulatedWorker::JoinGroup() {
  generation_ = course_.duty().form().group().generation();
  world().disturbances().Reach(Point::kSettingUp, {this});
  values_ = world().start();
  exchange_ = CreateExchange(*this, values_);
  exchange_->Prepare(Or([this] {
    proto::FromTask ready;
    ready.mutable_ready();
    Send(ready);
    if (incarnation() > 1) world().disturbances().Reach(Point::kEnrolling, {this, &world().chief()});
    Finished();
  }));
}

void SimulatedWorker::Evaluate() {
  const auto answer = Or([this] {
    const proto::Evaluate& order = course_.duty().evaluate();
    proto::FromTask message;
    proto::EvaluationDone& done = *message.mutable_evaluation_done();
    done.set_id(order.id());
    done.set_samples(order.end() - order.begin());
    done.set_labels(done.samples());
    done.set_correct(done.samples() / 2);
    done.set_loss_sum(world().invariants().LossSum(values_.parameters, order.begin(), order.end()));
    Send(message);
    world().disturbances().Reach(Point::kEvaluating, {this});
    Finished();
  });
  world().disturbances().Reach(Point::kEvaluating, {this});
  if (world().Misbehaves(Fault::kStaleEvaluation, 0.3)) return answer(absl::OkStatus());
  exchange_->Refresh(answer);
}

void SimulatedWorker::Save() {
  const proto::Save& order = course_.duty().save();
  std::vector<SavedRange> ranges;
  for (int slot = 0; slot < 2; ++slot) {
    const std::vector<float>& from = slot == 0 ? values_.parameters : values_.slot;
    const auto begin = from.begin() + order.first();
    if (order.count() > 0) ranges.push_back({slot, order.first(), {begin, begin + order.count()}});
  }
  WriteCheckpoint(std::move(ranges));
}

// ------------------------------------------------------------------------------------------- the segment

void SimulatedWorker::MakeStep() {
  while (announced_ < kAhead && course_.Announce().has_value()) ++announced_;
  SendAnswers();
  const absl::optional<BatchAssignment> batch = course_.BeginStep();
  if (!batch.has_value()) return EndRun();
  --announced_;
  const proto::JobPlan& plan = world().plan();
  const int64_t epoch = course_.run().epoch();
  step_ = {.number = batch->step,
           .epoch = epoch,
           .sample_begin = JobPosition(epoch, EpochLength(plan), batch->positions.begin),
           .samples = batch->positions.count(),
           .global_samples = batch->global_count,
           .schedule_position = SamplesUsed(plan, epoch, batch->step_begin)};
  steps_ = step_.number;
  exchange_->BeginStep(step_, Or([this] { Compute(); }));
}

void SimulatedWorker::Compute() {
  world().invariants().OnStepBegins(id(), incarnation(), step_.number);
  After(world().random().Delay(world().step_time()),
        [this, gradient = world().model().Gradient(values_.parameters, step_.sample_begin, step_.samples)] {
          exchange_->EndStep(step_, gradient, Or([this] { Record(); }));
        });
}

void SimulatedWorker::Record() {
  ++steps_;
  world().invariants().OnStepMade(*this, values_.parameters, steps_);
  proto::StepRecord record;
  record.set_rank(id().index);
  record.set_step(step_.number);
  record.set_epoch(step_.epoch);
  record.set_begin_ns(world().queue().now());
  record.set_samples(step_.samples);
  record.set_labels(step_.samples);
  record.set_sample_begin(step_.sample_begin);
  if (!world().Misbehaves(Fault::kLostRecord, 0.02)) *records_.add_record() = record;
  course_.EndStep();
  Resume();
}

void SimulatedWorker::EndRun() {
  announced_ = 0;  // Batches after the end of a cut segment are dropped.
  const bool late = world().Misbehaves(Fault::kLateRecords, 0.3);
  if (!late) Beat();
  course_.EndRun({});
  After(0, [this, late] {
    Finished();
    if (late) Beat();
  });
}

void SimulatedWorker::FillBeat(proto::Heartbeat& heartbeat, std::vector<proto::FromTask>& before) {
  heartbeat.set_step(steps_);
  if (records_.record().empty()) return;
  before.emplace_back().mutable_steps()->Swap(&records_);
  if (world().Misbehaves(Fault::kDoubledRecords, 0.1)) before.push_back(before.back());
}

// --------------------------------------------------------------------------------- local and mirrored jobs

void SimulatedWorker::MeetPeer(SimulatedWorker& peer, const std::shared_ptr<Connection>& connection) {
  peers_[peer.id().index] = connection;
  connection->WhenClosed(*this, [this, index = peer.id().index](const absl::Status& status) {
    ring_status_ = Annotate(status, absl::StrCat("the ring, at rank ", index));
    on_ring_broken();
  });
}

namespace {

class LocalExchange final : public Exchange {
 public:
  LocalExchange(SimulatedWorker& worker, Values& values) : worker_(worker), values_(values) {}

  void Prepare(Then then) override { then(absl::OkStatus()); }
  void EndStep(const Step& step, const std::vector<float>& gradient, Then then) override {
    worker_.world().model().Update(values_, gradient, step.global_samples);
    then(absl::OkStatus());
  }

 private:
  SimulatedWorker& worker_;
  Values& values_;
};

// Every worker sends its gradient to every other worker, and adds up all gradients in rank order.
class MirroredExchange final : public Exchange {
 public:
  MirroredExchange(SimulatedWorker& worker, Values& values) : worker_(worker), values_(values) {
    worker_.on_gradient = [this](int rank, int64_t step, const std::vector<float>& gradient) {
      arrived_[step][rank] = gradient;
      Go();
    };
    worker_.on_ring_broken = [this] { Go(); };
  }

  void Prepare(Then then) override {
    worker_.on_met = std::move(then);
    worker_.world().Meet(worker_);
  }
  void EndStep(const Step& step, const std::vector<float>& gradient, Then then) override {
    step_ = step;
    then_ = std::move(then);
    const int rank = worker_.id().index;
    const bool stale = !last_.empty() && worker_.world().Misbehaves(Fault::kStaleSum, 0.05);
    for (const auto& [peer, connection] : worker_.peers()) {
      auto& to = static_cast<SimulatedWorker&>(connection->other(worker_));
      connection->Send(worker_, [&to, rank, number = step.number, sent = stale ? last_ : gradient] {
        to.on_gradient(rank, number, sent);
      });
      worker_.world().disturbances().Reach(Point::kPushing, {&worker_, &to});
    }
    last_ = gradient;
    worker_.world().invariants().OnPushed(worker_.id(), worker_.incarnation(), step.number);
    arrived_[step.number][rank] = gradient;
    Go();
  }

 private:
  void Go() {
    if (!then_) return;
    if (arrived_[step_.number].size() <= worker_.peers().size()) {
      if (!worker_.ring_status().ok()) std::exchange(then_, nullptr)(worker_.ring_status());
      return;
    }
    std::vector<float> sums(values_.parameters.size());
    for (const auto& [rank, gradient] : arrived_[step_.number]) {
      for (const int64_t i : worker_.world().model().elements()) sums[i] += gradient[i];
    }
    arrived_.erase(step_.number);
    worker_.world().model().Update(values_, sums, step_.global_samples);
    std::exchange(then_, nullptr)(absl::OkStatus());
  }

  SimulatedWorker& worker_;
  Values& values_;
  Step step_;
  Then then_;  // The callback of EndStep, while the step waits for gradients; otherwise null.
  // Gradients that have arrived, by step and rank.
  std::map<int64_t, std::map<int, std::vector<float>>> arrived_;
  std::vector<float> last_;
};

}  // namespace

std::unique_ptr<Exchange> CreateExchange(SimulatedWorker& worker, Values& values) {
  switch (worker.world().kind()) {
    case Kind::kLocal:
      return std::make_unique<LocalExchange>(worker, values);
    case Kind::kMirrored:
      return std::make_unique<MirroredExchange>(worker, values);
    default:
      return CreateServerExchange(worker, values);
  }
}

}  // namespace tethys::simulation
