#include "tests/simulation/invariants.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/chief/journal_check.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/sharding.h"
#include "runtime/shape/job_shape.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/simulated_worker.h"
#include "tests/simulation/world.h"

namespace tethys::simulation {
namespace {

// The name of the answer that an order awaits; empty: none.
std::string AnswerTo(const proto::ToTask& order) {
  return order.has_run() ? "run" : order.has_save() ? "save" : order.has_evaluate() ? "evaluate" : "";
}

}  // namespace

Invariants::Invariants(World& world) : world_(world), leased_(TraitsOf(world.plan().job()).leases()) {
  used_.resize(static_cast<size_t>(EpochLength(world.plan()) * (world.plan().job().epochs() + 1)));
}

// ------------------------------------------------------------------------------------ samples and values

void Invariants::OnAttempt(const proto::TrainingState& state, const Values& values) {
  const int64_t begin = JobPosition(state.epoch(), EpochLength(world_.plan()), state.position());
  for (size_t i = static_cast<size_t>(begin); i < used_.size(); ++i) used_[i] = false;
  const int64_t epoch_samples = SamplesPerEpoch(world_.plan());
  for (int64_t i = 0; i < begin; ++i) {
    const bool counts = i % EpochLength(world_.plan()) < epoch_samples;
    if (counts && !used_[static_cast<size_t>(i)]) {
      world_.Broken("sample ", i, " was not used, and the attempt begins behind it, at ", begin);
    }
  }
  sum_ = values.parameters;
  pushes_.clear();
  versions_.clear();
  unanswered_.clear();
  counted_ = state.step();
}

void Invariants::OnJournalLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(absl::StripSuffix(line, "\n"), ' ');
  const auto number = [&](size_t i) {
    int64_t value = -1;
    if (i >= words.size() || !absl::SimpleAtoi(words[i], &value)) world_.Broken("a journal line: ", line);
    return value;
  };
  if (words[0] == "used") {
    counted_ = std::max(counted_, number(2) + 1);
    return Use(number(3), number(4));
  }
  if (words[0] != "torn") return;
  std::set<int> servers;
  for (size_t i = 4; i < words.size(); ++i) servers.insert(static_cast<int>(number(i)));
  Tear(number(2), number(3), servers);
}

void Invariants::Use(int64_t begin, int64_t count) {
  if (begin < 0 || count < 0 || begin + count > static_cast<int64_t>(used_.size())) {
    return world_.Broken(count, " samples are used from sample ", begin, " on, which no epoch has");
  }
  for (int64_t i = begin; i < begin + count; ++i) {
    if (used_[static_cast<size_t>(i)]) return world_.Broken("sample ", i, " is used twice");
    used_[static_cast<size_t>(i)] = true;
  }
  if (!leased_) return;
  const std::vector<float> gradient = world_.model().Gradient(sum_, begin, count);
  for (const int64_t i : world_.model().elements()) sum_[i] += gradient[i];
}

void Invariants::Tear(int64_t begin, int64_t count, const std::set<int>& servers) {
  const std::vector<float> gradient = world_.model().Gradient(sum_, begin, count);
  for (const proto::Shard& shard : world_.plan().placement().shard()) {
    if (servers.count(shard.server()) > 0) continue;
    for (int64_t i = shard.begin(); i < shard.begin() + shard.count(); ++i) sum_[i] -= gradient[i];
  }
}

const std::vector<float>& Invariants::ParametersAt(const proto::TrainingState& state) {
  return leased_ ? sum_ : world_.model().AfterSteps(state.step()).parameters;
}

void Invariants::CheckValues(const Values& values, const proto::TrainingState& state,
                             const std::string& where) {
  const std::vector<float>& expected = ParametersAt(state);
  for (const int64_t i : world_.model().elements()) {
    if (values.parameters[i] != expected[i]) {
      return world_.Broken(where, ": parameter ", i, " is ", values.parameters[i], ", and ", expected[i],
                           " by the serial loop, at step ", state.step());
    }
  }
  if (!leased_ && values.slot != world_.model().AfterSteps(state.step()).slot) {
    world_.Broken(where, ": the optimizer's slot is not that of step ", state.step());
  }
}

double Invariants::LossSum(const std::vector<float>& parameters, int64_t begin, int64_t end) const {
  int64_t sum = 0;
  for (const int64_t i : world_.model().elements())
    sum = (3 * sum + static_cast<int64_t>(parameters[i])) % 64;
  return static_cast<double>((end - begin) * sum + (begin + end - 1) * (end - begin) / 2);
}

// -------------------------------------------------------------------------------------- orders and steps

void Invariants::OnOrder(TaskId task, uint32_t incarnation, const proto::ToTask& order) {
  if (const std::string answer = AnswerTo(order); !answer.empty()) unanswered_[task].insert(answer);
  // The orders of the old group are abandoned.
  if (FormsNewGroups(world_.plan()) && (order.has_halt() || order.has_form())) {
    unanswered_.clear();
    pushes_.clear();
  }
  // A save is abandoned when the servers are halted. A server that is lost then may have been asked before.
  if (order.has_halt() || order.has_form()) unanswered_.erase(task);
  if (order.has_run() && !leased_) pushes_[task.index] = {incarnation, order.run().first_step()};
  if (order.has_lease() && order.lease().range_size() > 0) {
    const auto [at, first] =
        pushes_.insert({task.index, Pushes{incarnation, order.lease().range(0).clock()}});
    if (!first && at->second.incarnation != incarnation) {
      at->second = {incarnation, order.lease().range(0).clock()};
    }
  }
  if (order.has_fence() && !order.fence().takes_part()) {
    pushes_.erase(order.fence().worker());
    unanswered_.erase({proto::WORKER, order.fence().worker()});
  }
  const bool well =
      order.has_stop() && (!order.stop().failed() || absl::StartsWith(order.stop().reason(), "interrupted"));
  if (!well) return;
  for (const auto& [asked, answers] : unanswered_) {
    if (answers.empty()) continue;
    world_.Broken("the job ends, and ", TaskName(asked.role, asked.index),
                  " has not answered: ", absl::StrJoin(answers, ", "));
  }
}

void Invariants::OnAnswer(TaskId task, const proto::FromTask& answer) {
  const char* const name = answer.has_run_done()          ? "run"
                           : answer.has_save_done()       ? "save"
                           : answer.has_evaluation_done() ? "evaluate"
                                                          : "";
  std::multiset<std::string>& unanswered = unanswered_[task];
  if (const auto asked = unanswered.find(name); asked != unanswered.end()) unanswered.erase(asked);
}

void Invariants::OnStepBegins(TaskId worker, uint32_t incarnation, int64_t clock) {
  const ShapeTraits& traits = TraitsOf(world_.plan().job());
  if (traits.waits_for == WaitsFor::kNone) return;
  const auto own = pushes_.find(worker.index);
  if (own == pushes_.end() || own->second.incarnation != incarnation) return;
  const int64_t bound =
      traits.bound == nullptr ? 0 : traits.bound(world_.plan().job().strategy().parameter_server());
  for (const auto& [other, pushes] : pushes_) {
    if (clock - bound <= pushes.next) continue;
    world_.Broken("worker ", worker.index, " begins step ", clock, ", but worker ", other,
                  " has pushed only the steps before ", pushes.next, ", and the bound is ", bound);
  }
}

void Invariants::OnPushed(TaskId worker, uint32_t incarnation, int64_t clock) {
  const auto own = pushes_.find(worker.index);
  if (own != pushes_.end() && own->second.incarnation == incarnation) own->second.next = clock + 1;
}

void Invariants::OnStepMade(const Process& worker, const std::vector<float>& parameters, int64_t steps) {
  // A worker that was given up, and goes on after a stop, may read answers from memory that has changed since
  // its group was halted. Nobody uses its parameters.
  if (leased_ || world_.GivenUp(worker)) return;
  if (parameters == world_.model().AfterSteps(steps).parameters) return;
  world_.Broken(worker.name(), " has other parameters after step ", steps, " than the serial loop");
}

void Invariants::OnVersion(int server, int64_t version) {
  if (version < versions_[server]) {
    world_.Broken("server ", server, " goes back to version ", version);
  }
  versions_[server] = version;
  if (!IsBulk(world_.kind())) return;
  const int holders = ServersWithShards(world_.plan().placement());
  for (const auto& [other, own] : versions_) {
    if (other < holders && server < holders && std::abs(own - version) > 1) {
      world_.Broken("server ", server, " is at version ", version, ", server ", other, " at ", own);
    }
  }
}

void Invariants::OnStepBack(int server, int64_t version) {
  if (server < ServersWithShards(world_.plan().placement()) && version < counted_) {
    world_.Broken("server ", server, " goes back to version ", version, ", and ", counted_, " steps count");
  }
  versions_.erase(server);
}

// -------------------------------------------------------------------------------------- saves and the end

void Invariants::OnCommit(const Checkpoint& checkpoint) {
  const proto::TrainingState& state = checkpoint.state;
  if (checkpoint.missing > 0) {
    return world_.Broken("the checkpoint of step ", state.step(), " lacks ", checkpoint.missing, " values");
  }
  if (!leased_ && state.step() != world_.model().StepsAt(state.epoch(), state.position())) {
    world_.Broken("step ", state.step(), " is saved at epoch ", state.epoch(), ", position ",
                  state.position());
  }
  CheckValues(checkpoint.values, state, "a checkpoint");
}

void Invariants::OnProgress(const proto::ProgressEvent& event) {
  const TaskId lost = {event.task_lost().role() == "ps" ? proto::PS : proto::WORKER,
                       event.task_lost().index()};
  if (event.has_task_lost() && world_.disturbances().hit().count(lost) == 0) {
    world_.Broken(TaskName(lost.role, lost.index), " counts as lost: ", event.task_lost().reason());
  }
  const bool replaced = FormsNewGroups(world_.plan()) || lost.role == proto::PS;
  if (event.has_task_lost() && replaced) unanswered_.erase(lost);
  if (event.has_task_lost() && world_.kind() == Kind::kMirrored) CheckNoNeedlessLoss(event.task_lost());
  if (!event.has_epoch() || !event.epoch().validated()) return;
  proto::TrainingState state;
  state.set_step(event.epoch().step());
  const int64_t samples = world_.plan().validation_samples();
  const double expected = LossSum(ParametersAt(state), 0, samples) / static_cast<double>(samples);
  if (std::abs(event.epoch().validation_loss() - expected) > 1e-9) {
    world_.Broken("epoch ", event.epoch().epoch(), " has the validation loss ",
                  event.epoch().validation_loss(), " instead of ", expected);
  }
}

// The chief may give up a living worker that has the parameters only if another worker has them, too. The
// other worker may have died shortly before, because the chief may not know yet of its death.
void Invariants::CheckNoNeedlessLoss(const proto::TaskLost& lost) {
  constexpr Nanoseconds kUnnoticed = 2 * kSecond;
  const SimulatedWorker* const worker = world_.worker(lost.index());
  if (!worker->alive() || worker->cut_off() || !worker->has_state() ||
      worker->incarnation() != static_cast<uint32_t>(lost.incarnation())) {
    return;
  }
  if (world_.OthersHaveState(worker, kUnnoticed)) return;
  world_.Broken(worker->name(), " alone has the parameters and is given up: ", lost.reason());
}

void Invariants::OnFailedEnd(const absl::Status& status, TaskId culprit) {
  const Disturbances& happened = world_.disturbances();
  const std::string text = StatusText(status);
  if (status.message().empty()) return world_.Broken("the job ended without a word");
  if (absl::StrContains(text, "not saved")) {
    if (!happened.saves_may_fail()) world_.Broken("a save failed for no reason: ", text);
    return;
  }
  if (absl::IsCancelled(status) && happened.interrupted()) return;
  bool named = happened.hit().count(culprit) > 0, others_hit = false;
  // A job whose servers have copies survives the loss of one server.
  int servers_survived = CopiesShards(world_.plan()) ? 1 : 0;
  for (const TaskId hit : happened.hit()) {
    named = named || absl::StrContains(text, TaskName(hit.role, hit.index));
    const bool survives = hit.role == proto::WORKER || (hit.role == proto::PS && servers_survived-- > 0);
    others_hit = others_hit || !survives;
  }
  const bool used_up =
      absl::StrContains(text, "max_restarts") || absl::StrContains(text, "no replacement was ready");
  if (!named && !used_up) return world_.Broken("the job ended, and no task was hit that it names: ", text);
  if (absl::StrContains(text, "no other worker has the parameters")) {
    if (world_.OthersHaveState(nullptr, 0)) {
      world_.Broken("a worker has parameters, and the job ended: ", text);
    }
    return;
  }
  if (!SurvivesWorkerLoss(world_.plan()) || others_hit || used_up || happened.hit_before_training()) return;
  world_.Broken("the loss of a task ended the job: ", text);
}

void Invariants::OnRunEnd(const std::string& lines, const Checkpoint& newest) {
  const absl::StatusOr<journal::CheckResult> checked = journal::Check(lines);
  if (!checked.ok()) return world_.Broken("the journal's check: ", StatusText(checked.status()));
  if (!checked->ended) return world_.Broken("the journal has no end");
  CheckValues(newest.values, newest.state, "the last checkpoint");
  const int64_t position =
      JobPosition(newest.state.epoch(), SamplesPerEpoch(world_.plan()), newest.state.position());
  if (checked->samples != position) {
    world_.Broken("the job ended after ", position, " samples, and the journal has ", checked->samples);
  }
}

}  // namespace tethys::simulation
