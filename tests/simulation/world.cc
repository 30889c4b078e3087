#include "tests/simulation/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/chief/journal.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/shape/job_shape.h"
#include "tests/simulation/simulated_server.h"
#include "tests/simulation/simulated_worker.h"

namespace tethys::simulation {
namespace {

// Attempts after these have no disturbances, so the first undisturbed attempt succeeds.
constexpr int kDisturbedAttempts = 4;
// The time after the last disturbance within which a job must end. It covers the start, silences,
// replacements and the whole training.
constexpr Nanoseconds kPatience = 30 * kSecond;

}  // namespace

World::World(const RunOptions& options)
    : options_(options),
      random_(options.seed),
      fault_random_(~options.seed),
      plan_(DrawPlan(options.kind, random_)),
      model_(plan_),
      disk_(model_),
      disturbances_(*this),
      invariants_(*this),
      message_delay_(random_.Pick({100 * kMicrosecond, kMillisecond, 5 * kMillisecond})),
      step_time_(random_.Pick({2 * kMillisecond, 10 * kMillisecond})),
      beat_interval_(random_.Pick({30 * kMillisecond, 250 * kMillisecond})) {}

World::~World() = default;

RunResult World::Run() {
  bool ended_well = false;
  while (!ended_well && result_.broken.empty()) {
    const bool quiet = result_.attempts >= kDisturbedAttempts;
    BeginAttempt(quiet);
    RunAttempt();
    EndAttempt();
    ended_well = attempt_ == Attempt::kEndedWell;
    if (quiet && !ended_well) Broken("an attempt in which nothing happened did not end well");
  }
  if (result_.broken.empty() && !disk_.newest().has_value()) Broken("the job ended well, and saved nothing");
  if (result_.broken.empty()) invariants_.OnRunEnd(disk_.journal(), *disk_.newest());
  result_.aimed = disturbances_.aimed();
  result_.events = queue_.added();
  result_.ended = queue_.now();
  return result_;
}

void World::BeginAttempt(bool quiet) {
  if (result_.attempts++ > 0 && random_.Chance(0.4)) DrawTasks(options_.kind, random_, plan_);
  begun_ = queue_.now();
  attempt_ = Attempt::kRuns;
  restarts_ = 0;
  disk_.Abandon();
  proto::TrainingState state;
  state.set_train_samples(plan_.train_samples());
  start_ = model_.Initial();
  const bool restore = disk_.newest().has_value();
  if (restore) {
    state = disk_.newest()->state;
    start_ = disk_.newest()->values;
    if (Misbehaves(Fault::kFadedSlots, 1)) start_.slot = model_.Initial().slot;
  }
  state.set_global_batch_size(plan_.global_batch());
  state.set_order(OrderText(plan_));
  Trace("ATTEMPT ", result_.attempts, " at step ", state.step(), ", epoch ", state.epoch(), ", position ",
        state.position(), ": ", StrategyName(plan_.job()), ", ", plan_.job().workers(), " workers, ",
        plan_.placement().servers(), " servers, max_restarts ", plan_.job().max_restarts());
  disk_.journal() += journal::Attempt(state, EpochLength(plan_), plan_.job().workers(),
                                      ServersWithShards(plan_.placement()), StrategyName(plan_.job()));
  invariants_.OnAttempt(state, disk_.newest().has_value() ? disk_.newest()->values : start_);
  disturbances_.BeginAttempt(quiet);

  auto chief = std::make_unique<SimulatedChief>(*this, state, restore);
  chief_ = chief.get();
  processes_.push_back(std::move(chief));
  chief_->Begin();
  meeting_.clear();
  servers_.assign(plan_.placement().servers(), nullptr);
  for (int i = 0; i < plan_.placement().servers(); ++i) StartServer(i, 1);
  workers_.assign(plan_.job().workers(), nullptr);
  for (int i = 0; i < plan_.job().workers(); ++i) StartWorker(i, 1);
}

void World::RunAttempt() {
  while (attempt_ == Attempt::kRuns && result_.broken.empty()) {
    const bool ran = queue_.RunNext();
    if (!ran || queue_.now() > std::max(begun_, disturbances_.last()) + kPatience) {
      Broken("no progress: ", Unfinished());
    }
  }
}

void World::EndAttempt() {
  if (attempt_ == Attempt::kRuns) attempt_ = Attempt::kEnded;
  for (const std::unique_ptr<Process>& process : processes_) process->EndAs(Process::End::kKill);
}

void World::StartWorker(int index, uint32_t incarnation) {
  auto worker = std::make_unique<SimulatedWorker>(*this, index, incarnation);
  SimulatedWorker* const started = workers_[static_cast<size_t>(index)] = worker.get();
  processes_.push_back(std::move(worker));
  queue_.After(random_.Delay(kMillisecond), [started] { started->Do([started] { started->Begin(); }); });
}

void World::StartServer(int index, uint32_t incarnation) {
  auto server = std::make_unique<SimulatedServer>(*this, index, incarnation);
  SimulatedServer* const started = servers_[static_cast<size_t>(index)] = server.get();
  processes_.push_back(std::move(server));
  queue_.After(random_.Delay(kMillisecond), [started] { started->Do([started] { started->Begin(); }); });
}

Process* World::NewestOf(TaskId task) const {
  if (task.role == proto::PS) return server(task.index);
  return workers_[static_cast<size_t>(task.index)];
}

// --------------------------------------------------------------------------------------- what processes tell

void World::OnProcessEnd(Process& process, Process::End end) {
  if (attempt_ != Attempt::kRuns) return;
  died_[&process] = queue_.now();
  if (&process == chief_) {
    Trace("the chief is gone: the launcher ends the job");
    attempt_ = Attempt::kEnded;
    return;
  }
  // The launcher replaces a task that was killed or vanished, or that exited after a disturbance had hit it.
  const bool survives = process.id().role == proto::WORKER ? SurvivesWorkerLoss(plan_) : CopiesShards(plan_);
  if (!survives || NewestOf(process.id()) != &process || restarts_ >= plan_.job().max_restarts()) return;
  if (end == Process::End::kExit && disturbances_.hit().count(process.id()) == 0) return;
  ++restarts_;
  ++result_.restarts;
  queue_.After(random_.Between(kMillisecond, 600 * kMillisecond),
               [this, chief = chief_, id = process.id(), next = process.incarnation() + 1] {
                 if (chief != chief_ || attempt_ != Attempt::kRuns) return;
                 id.role == proto::PS ? StartServer(id.index, next) : StartWorker(id.index, next);
               });
}

void World::EndLostTask(const proto::TaskLost& lost) {
  Process* const task = NewestOf({lost.role() == "ps" ? proto::PS : proto::WORKER, lost.index()});
  if (task->incarnation() != static_cast<uint32_t>(lost.incarnation())) return;
  given_up_.insert(task);
  // The lost task's process may still run for a while, because it may be out of reach.
  queue_.After(random_.Between(0, kSecond), [task] { task->EndAs(Process::End::kKill); });
}

void World::OnJobEnd(const absl::Status& status, TaskId culprit) {
  Trace("END ", StatusText(status));
  if (!status.ok()) invariants_.OnFailedEnd(status, culprit);
  attempt_ = status.ok() ? Attempt::kEndedWell : Attempt::kEnded;
}

bool World::MeetsStill(const SimulatedWorker& worker, uint32_t generation) const {
  return worker.alive() && worker.generation() == generation && worker.meets();
}

void World::Meet(SimulatedWorker& worker) {
  const uint32_t generation = worker.generation();
  if (std::find(meeting_.begin(), meeting_.end(), &worker) == meeting_.end()) meeting_.push_back(&worker);
  std::vector<SimulatedWorker*> members;
  for (SimulatedWorker* met : meeting_) {
    if (MeetsStill(*met, generation)) members.push_back(met);
  }
  size_t expected = 0;
  for (const proto::Member& member : worker.form().group().member())
    expected += member.role() == proto::WORKER;
  if (members.size() < expected) return LookForDeadPeers(worker, generation);
  Connect(members);
}

void World::Connect(const std::vector<SimulatedWorker*>& members) {
  for (SimulatedWorker* a : members) {
    meeting_.erase(std::find(meeting_.begin(), meeting_.end(), a));
    for (SimulatedWorker* b : members) {
      if (a->id().index >= b->id().index) continue;
      const auto connection = Connection::Make(*this, *a, *b, Connection::Use::kRing);
      a->MeetPeer(*b, connection);
      b->MeetPeer(*a, connection);
    }
  }
  for (SimulatedWorker* met : members) {
    met->After(random_.Delay(message_delay_), [met, generation = met->generation()] {
      if (met->generation() == generation) met->on_met(absl::OkStatus());
    });
  }
}

void World::LookForDeadPeers(SimulatedWorker& worker, uint32_t generation) {
  worker.After(random_.Between(1, 300) * kMillisecond, [this, &worker, generation] {
    if (!MeetsStill(worker, generation)) return;
    for (const proto::Member& member : worker.form().group().member()) {
      const SimulatedWorker* const peer = workers_[static_cast<size_t>(member.index())];
      if (peer->alive() && peer->incarnation() == member.incarnation()) continue;
      return worker.BreakRing(absl::UnavailableError(absl::StrCat("cannot reach worker ", member.index())),
                              member.index());
    }
    LookForDeadPeers(worker, generation);
  });
}

bool World::OthersHaveState(const Process* except, Nanoseconds ago) const {
  for (const std::unique_ptr<Process>& process : processes_) {
    if (process.get() == except || process->id().role != proto::WORKER) continue;
    const auto died = died_.find(process.get());
    const bool cut_off =
        static_cast<const SimulatedWorker&>(*process).cut_off() || given_up_.count(process.get()) > 0;
    const bool lives =
        (process->alive() && !cut_off) || (died != died_.end() && queue_.now() - died->second < ago);
    if (lives && static_cast<const SimulatedWorker&>(*process).has_state()) return true;
  }
  return false;
}

std::vector<Process*> World::LivingProcesses() const {
  std::vector<Process*> living;
  for (const std::unique_ptr<Process>& process : processes_) {
    if (process->alive()) living.push_back(process.get());
  }
  return living;
}

std::string World::Unfinished() const {
  std::string text = "the job does not end; alive:";
  for (const Process* process : LivingProcesses()) absl::StrAppend(&text, " ", process->name());
  return text;
}

void World::Print(const std::string& line) const {
  std::printf("%9.3f %s\n", ToSeconds(queue_.now() - begun_) * 1000, line.c_str());
}

}  // namespace tethys::simulation
