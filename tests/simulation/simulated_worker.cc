#include "tests/simulation/simulated_worker.h"

#include <algorithm>
#include <utility>

#include "runtime/cluster/group_place.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/sharding.h"
#include "runtime/shape/job_shape.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

constexpr int kAhead = 3;  // Batches that a loader prefetches.

}  // namespace

Exchange::Then SimulatedWorker::Or(std::function<void()> next) {
  return [this, next = std::move(next)](const absl::Status& status) {
    if (!alive()) return;
    if (!status.ok()) return OnBroken(status);
    next();
  };
}

void SimulatedWorker::OnBroken(const absl::Status& status) {
  const bool membership =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
  if (!membership || !FormsNewGroups(world().plan())) return Leave(status);
  world().Trace(name(), " leaves group ", generation_, ": ", StatusText(status));
  if (!world().Misbehaves(Fault::kAppliesAfterHalt, 1)) {
    for (const auto& [index, connection] : peers_)
      connection->Close(*this, absl::AbortedError("it has left"));
  }
  announced_ = 0;
  meets_ = false;
  Beat();
  const bool told = halted_ >= generation_;
  course_.OnLeft();
  if (!told) {
    proto::Halted halted;
    halted.set_reason(std::string(status.message()));
    if (suspect_ >= 0) halted.set_suspect(suspect_);
    if (IsBulk(world().kind()) && absl::IsUnavailable(status)) halted.set_suspect(id().index);
    SayHalted(std::move(halted));
  }
  Resume();
}

void SimulatedWorker::SayHalted(proto::Halted halted) {
  if (has_state_) halted.set_applied(applied_);
  if (!has_state_ && world().Misbehaves(Fault::kNewcomerClaimsState, 1)) halted.set_applied(form_.step());
  course_.SayHalted(std::move(halted));
  SendAnswers();
  world().disturbances().Reach(Point::kHalting, {this, &world().chief()});
}

void SimulatedWorker::OnHalt(const proto::Halt& halt) {
  halted_ = std::max(halted_, halt.generation());
  if (halt.generation() >= generation_ && exchange_ != nullptr) exchange_->Interrupt();
}

void SimulatedWorker::OnServers() {
  if (exchange_ != nullptr) exchange_->Redirect();
}

void SimulatedWorker::AnswerHalt() {
  Beat();
  SayHalted({});
  Finished();
}

void SimulatedWorker::Work() {
  const proto::ToTask& duty = course_.duty();
  if (duty.has_run()) return MakeStep();
  const Nanoseconds time = world().random().Delay(2 * kMillisecond);
  if (duty.has_setup()) {
    return After(time, [this] {
      proto::FromTask ready;
      ready.mutable_ready();
      Send(ready);
      Finished();
    });
  }
  if (duty.has_halt()) return After(time, [this] { AnswerHalt(); });
  if (duty.has_form()) return After(time, [this] { JoinGroup(); });
  if (duty.has_evaluate()) return After(time, [this] { Evaluate(); });
  After(time, [this] { Save(); });
}

void SimulatedWorker::JoinGroup() {
  form_ = course_.duty().form();
  generation_ = form_.group().generation();
  world().disturbances().Reach(has_state_ ? Point::kForming : Point::kSettingUp, {this});
  const int rank = PlaceIn(form_.group(), id().index).rank;
  const bool behind = std::find(form_.behind().begin(), form_.behind().end(), rank) != form_.behind().end();
  if (!has_state_) values_ = behind ? world().model().Initial() : world().start();
  if (!has_state_ && !behind) {
    has_state_ = true;
    applied_ = form_.step();
  }
  peers_.clear();
  meets_ = true;
  ring_status_ = absl::OkStatus();
  suspect_ = -1;
  if (exchange_ != nullptr) past_.push_back(std::move(exchange_));
  exchange_ = CreateExchange(*this, values_);
  if (halted_ >= generation_) exchange_->Interrupt();
  exchange_->Prepare(Or([this] {
    // In a job with servers the exchange has fetched the parameters.
    if (IsBulk(world().kind())) TakeState(values_);
    SayFormed();
  }));
}

void SimulatedWorker::SayFormed() {
  meets_ = false;
  proto::FromTask formed;
  formed.mutable_formed()->set_generation(generation_);
  Send(formed);
  world().disturbances().Reach(Point::kFormed, {this, &world().chief()});
  if (incarnation() > 1) world().disturbances().Reach(Point::kEnrolling, {this, &world().chief()});
  Finished();
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
  if (course_.halts()) return OnBroken(absl::AbortedError("halted"));
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
  applied_ = steps_;
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
  const int index = peer.id().index;
  peers_[index] = connection;
  connection->WhenClosed(*this, [this, index, generation = generation_](const absl::Status& status) {
    if (generation != generation_) return;
    BreakRing(Annotate(absl::UnavailableError(status.message()), absl::StrCat("the ring, at worker ", index)),
              index);
  });
}

void SimulatedWorker::BreakRing(const absl::Status& status, int suspect) {
  if (!ring_status_.ok()) return;
  ring_status_ = status;
  suspect_ = suspect;
  on_ring_broken();
}

void SimulatedWorker::TakeState(const Values& values) {
  if (&values != &values_) values_ = values;
  has_state_ = true;
  applied_ = steps_ = form_.step();
  world().invariants().OnStepMade(*this, values_.parameters, applied_);
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

// Every worker sends its gradient to every other worker, and adds up all gradients in rank order. When a
// group forms, the group's source sends its state to the members that are behind. These members take the
// state once all of it has arrived.
class MirroredExchange final : public Exchange {
 public:
  MirroredExchange(SimulatedWorker& worker, Values& values)
      : worker_(worker), values_(values), generation_(worker.generation()) {
    worker_.on_gradient = [this](int index, int64_t step, const std::vector<float>& gradient) {
      arrived_[step][index] = gradient;
      Go();
    };
    worker_.on_copy = [this](int slot, const std::vector<float>& part) {
      (slot == 0 ? staged_.parameters : staged_.slot) = part;
      copied_ = slot == 1;
      if (copied_ && copying_ && !interrupted_) TakeCopy();
    };
    worker_.on_ring_broken = [this] { Go(); };
  }

  void Prepare(Then then) override {
    then_ = std::move(then);
    forming_ = true;
    worker_.on_met = [this](const absl::Status&) { Copy(); };
    if (interrupted_) return Go();
    worker_.world().Meet(worker_);
  }

  void EndStep(const Step& step, const std::vector<float>& gradient, Then then) override {
    step_ = step;
    then_ = std::move(then);
    if (interrupted_ && !worker_.world().Misbehaves(Fault::kAppliesAfterHalt, 1)) return Go();
    const int own = worker_.id().index;
    const bool stale = !last_.empty() && worker_.world().Misbehaves(Fault::kStaleSum, 0.05);
    for (const auto& [peer, connection] : worker_.peers()) {
      auto& to = static_cast<SimulatedWorker&>(connection->other(worker_));
      connection->Send(worker_, [&to, own, generation = generation_, number = step.number,
                                 sent = stale ? last_ : gradient] {
        if (to.generation() == generation) to.on_gradient(own, number, sent);
      });
      worker_.world().disturbances().Reach(Point::kPushing, {&worker_, &to});
    }
    last_ = gradient;
    worker_.world().invariants().OnPushed(worker_.id(), worker_.incarnation(), step.number);
    arrived_[step.number][own] = gradient;
    Go();
  }

  void Interrupt() override {
    // The deliberate fault: the update of the pending step is still applied.
    if (worker_.world().Misbehaves(Fault::kAppliesAfterHalt, 1)) applies_late_ = static_cast<bool>(then_);
    interrupted_ = true;
    Go();
  }

 private:
  void End(const absl::Status& status) {
    forming_ = copying_ = false;
    std::exchange(then_, nullptr)(status);
  }

  // Called when all members are connected.
  void Copy() {
    if (!then_ || !forming_) return;
    forming_ = false;
    const proto::Form& form = worker_.form();
    const int own = PlaceIn(form.group(), worker_.id().index).rank;
    copying_ = std::find(form.behind().begin(), form.behind().end(), own) != form.behind().end();
    if (copying_ && copied_ && !interrupted_) return TakeCopy();
    if (copying_ || interrupted_) return Go();
    if (own == form.source()) {
      for (const int rank : form.behind()) SendStateTo(form.group().member(rank).index());
    }
    End(absl::OkStatus());
  }

  void TakeCopy() {
    worker_.TakeState(staged_);
    End(absl::OkStatus());
  }

  void SendStateTo(int index) {
    const std::shared_ptr<Connection>& connection = worker_.peers().at(index);
    auto& to = static_cast<SimulatedWorker&>(connection->other(worker_));
    for (int slot = 0; slot < 2; ++slot) {
      connection->Send(worker_, [&to, slot, generation = generation_,
                                 part = slot == 0 ? values_.parameters : values_.slot] {
        if (to.generation() == generation) to.on_copy(slot, part);
      });
      worker_.world().disturbances().Reach(Point::kCopying, {&worker_, &to});
    }
  }

  void Go() {
    const bool complete = !forming_ && !copying_ && arrived_[step_.number].size() > worker_.peers().size();
    if (applies_late_ && complete) {
      applies_late_ = false;
      Apply();
    }
    if (!then_) return;
    if (interrupted_) return End(absl::AbortedError("halted"));
    if (complete) {
      Apply();
      return End(absl::OkStatus());
    }
    if (!worker_.ring_status().ok()) End(worker_.ring_status());
  }

  void Apply() {
    std::vector<float> sums(values_.parameters.size());
    for (const auto& [index, gradient] : arrived_[step_.number]) {
      for (const int64_t i : worker_.world().model().elements()) sums[i] += gradient[i];
    }
    arrived_.erase(step_.number);
    worker_.world().model().Update(values_, sums, step_.global_samples);
  }

  SimulatedWorker& worker_;
  Values& values_;
  const uint32_t generation_;
  Step step_;
  Then then_;             // The callback of the pending call.
  bool forming_ = false;  // The members are not connected yet.
  bool copying_ = false;  // This worker must take a copy of the state, and has not taken it yet.
  bool copied_ = false;   // The copy has arrived.
  bool interrupted_ = false, applies_late_ = false;
  Values staged_;
  std::map<int64_t, std::map<int, std::vector<float>>> arrived_;  // Gradients by step and index.
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
