#include "runtime/chief/task_losses.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/chief/journal.h"
#include "runtime/chief/saved_values.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

// The last loss of this server; the list's end: the server was never lost.
template <typename Losses>
auto LastOfServer(Losses& losses, int server) {
  return std::find_if(losses.rbegin(), losses.rend(),
                      [server](const proto::ServerLoss& loss) { return loss.server() == server; });
}

}  // namespace

void TaskLosses::Lose(TaskId id, const std::string& reason, const std::string& text, Nanoseconds now,
                      Actions& actions) {
  roster_.Lose(id);
  const TaskState& task = roster_.at(id);
  last_ = questions_[id].lost_at = now;
  segment_.leases().Leave(id.index);

  proto::WorkerLoss& loss = *losses_.Add();
  loss.set_worker(id.index);
  loss.set_host(task.member.host());
  loss.set_incarnation(task.member.incarnation());
  loss.set_reason(reason);
  loss.set_seconds(ToSeconds(now - started_));

  const proto::Job& job = plan_.job();
  const bool enough = !FormsNewGroups(plan_) || roster_.workers_left() >= GroupRulesOf(job).least_workers;
  const bool replaced = static_cast<int64_t>(Unreplaced().size()) <= RestartsLeft();
  ReportLoss(id,
             absl::StrCat(text, "; ",
                          replaced ? "the worker is to be replaced"
                          : enough ? "the job goes on without this worker"
                                   : "too few workers are left"),
             actions);
}

void TaskLosses::LoseServer(TaskId id, const std::string& reason, const std::string& text, Nanoseconds now,
                            Actions& actions) {
  roster_.Lose(id);
  const TaskState& task = roster_.at(id);
  last_ = now;
  proto::ServerLoss& loss = *server_losses_.Add();
  loss.set_server(id.index);
  loss.set_host(task.member.host());
  loss.set_incarnation(task.member.incarnation());
  loss.set_reason(reason);
  loss.set_seconds(ToSeconds(now - started_));
  ReportLoss(id, absl::StrCat(text, "; a replacement is to take its shards from their copy"), actions);
}

void TaskLosses::ReportLoss(TaskId id, const std::string& text, Actions& actions) const {
  proto::ProgressEvent event;
  proto::TaskLost& lost = *event.mutable_task_lost();
  lost.set_role(id.role == proto::PS ? "ps" : "worker");
  lost.set_index(id.index);
  lost.set_incarnation(roster_.at(id).member.incarnation());
  lost.set_reason(text);
  actions.push_back(Report{std::move(event)});
}

void TaskLosses::Fence(TaskId id, Actions& actions) { Ask(id, false, actions); }

void TaskLosses::Enrol(TaskId id, Actions& actions) { Ask(id, true, actions); }

void TaskLosses::Ask(TaskId id, bool takes_part, Actions& actions) {
  Question& question = questions_[id];
  question.fence.set_worker(id.index);
  question.fence.set_incarnation(roster_.at(id).member.incarnation() + (takes_part ? 0 : 1));
  question.fence.set_takes_part(takes_part);
  question.unanswered = AllServers();
  SendToServers(question.fence, actions);
}

std::set<int> TaskLosses::AllServers() const {
  std::set<int> servers;
  for (const TaskId server : roster_.Present(proto::PS)) servers.insert(server.index);
  return servers;
}

void TaskLosses::SendToServers(proto::Fence& fence, Actions& actions) {
  fence.set_clock(segment_.leases().next_round());
  proto::ToTask order;
  *order.mutable_fence() = fence;
  for (const TaskId server : roster_.Present(proto::PS)) actions.push_back(SendOrder{server, order});
}

std::vector<proto::Fence> TaskLosses::Fences() const {
  std::vector<proto::Fence> fences;
  for (const auto& [id, question] : questions_) {
    if (question.fence.incarnation() != 0) fences.push_back(question.fence);
  }
  return fences;
}

void TaskLosses::AskAgain(Actions& actions) {
  for (auto& [id, question] : questions_) {
    if (question.fence.incarnation() == 0) continue;
    // A server answers once for each time that it was asked, and each of its answers is as good.
    if (!question.unanswered.empty()) question.unanswered = AllServers();
    proto::ToTask order;
    *order.mutable_fence() = question.fence;
    for (const TaskId server : roster_.Present(proto::PS)) actions.push_back(SendOrder{server, order});
  }
}

TaskLosses::Answer TaskLosses::OnFenced(TaskId server, const proto::Fenced& fenced) {
  const auto it = questions_.find({proto::WORKER, fenced.worker()});
  if (it == questions_.end()) return Answer::kNotYet;
  Question& question = it->second;
  // Only an answer to the latest request (proto::Fence) about this worker counts.
  const bool expected = fenced.incarnation() == question.fence.incarnation() &&
                        fenced.takes_part() == question.fence.takes_part();
  if (!expected || question.unanswered.erase(server.index) == 0) return Answer::kNotYet;
  if (!question.unanswered.empty()) return Answer::kNotYet;
  return question.fence.takes_part() ? Answer::kEnrolled : Answer::kLostIsFenced;
}

void TaskLosses::Settle(TaskId id, Actions& actions) {
  const LeaseBook::Settlement settlement =
      segment_.leases().Settle(id.index, ServersWithShards(roster_.membership().placement()));
  proto::WorkerLoss& loss = LastOf(id);
  loss.set_batches_returned(loss.batches_returned() + settlement.returned);
  const auto use = [&](Slice positions) {
    // Use cannot fail: the lease book holds each batch at most once.
    TETHYS_CHECK(segment_.ledger().Use(id.index, positions).ok());
    loss.set_unrecorded_samples(loss.unrecorded_samples() + positions.count());
    actions.push_back(WriteJournal{
        journal::Used(id.index, roster_.at(id).step, segment_.SampleBegin(positions), positions.count())});
  };
  for (const Slice positions : settlement.applied) use(positions);
  for (const LeaseBook::TornBatch& torn : settlement.torn) {
    use(torn.positions);
    actions.push_back(WriteJournal{
        journal::Torn(id.index, segment_.SampleBegin(torn.positions), torn.positions.count(), torn.servers)});
    proto::TornBatch& line = *loss.add_torn();
    line.set_epoch(segment_.segment().epoch);
    line.set_begin(torn.positions.begin);
    line.set_end(torn.positions.end);
    for (const int server : torn.servers) line.add_server(server);
  }
}

bool TaskLosses::Awaited(TaskId id) const {
  const uint32_t own = roster_.at(id).member.incarnation();
  if (id.role == proto::PS) {
    const auto loss = LastOfServer(server_losses_, id.index);
    return loss != server_losses_.rend() && loss->incarnation() < own && loss->replaced_seconds() == 0;
  }
  return std::any_of(losses_.begin(), losses_.end(), [&](const proto::WorkerLoss& loss) {
    return loss.worker() == id.index && loss.incarnation() + 1 == own && loss.replaced_seconds() == 0;
  });
}

void TaskLosses::Replaced(TaskId id, Nanoseconds now, Actions& actions) {
  double seconds = 0;
  if (id.role == proto::PS) {
    const auto loss = LastOfServer(server_losses_, id.index);
    seconds = ToSeconds(now - started_) - loss->seconds();
    loss->set_replaced_seconds(seconds);
  } else {
    seconds = ToSeconds(now - questions_[id].lost_at);
    LastOf(id).set_replaced_seconds(seconds);
  }
  proto::ProgressEvent event;
  event.set_note(absl::StrFormat("%s takes part again after %.1f s", roster_.Describe(id), seconds));
  actions.push_back(Report{std::move(event)});
}

void TaskLosses::TakesPart(TaskId id, Nanoseconds now, Actions& actions) {
  TaskState& task = roster_.at(id);
  // If batches are leased in rounds, a replacement counts its steps from the round in which it begins, so it
  // has missed no steps.
  if (!segment_.leases().in_rounds()) task.missed = std::max<int64_t>(0, roster_.UsualStep() - task.step);
  roster_.TakesPart(id);
  task.run_done = true;  // The worker was not asked to train in this run.
  segment_.leases().Join(id.index);
  Question& question = questions_.at(id);
  // Rounds that were dealt after the servers were asked contain no step for the replacement. So the servers
  // are asked again, with a later first round, and do not wait for the replacement in those rounds.
  if (segment_.leases().next_round() > question.fence.clock()) SendToServers(question.fence, actions);
  Replaced(id, now, actions);
}

int64_t TaskLosses::RestartsLeft() const {
  int64_t used = chief_losses_.size();
  for (const auto& [id, task] : roster_.tasks()) {
    const uint32_t newest = std::max(task.member.incarnation(), task.candidate);
    used += newest > 0 ? newest - 1 : 0;
  }
  return std::max<int64_t>(0, plan_.job().max_restarts() - used);
}

std::vector<TaskId> TaskLosses::Unreplaced() const {
  std::vector<std::pair<double, TaskId>> lost;
  const auto add = [&](TaskId id, const auto& loss) {
    const TaskState& task = roster_.at(id);
    const uint32_t newest = std::max(task.member.incarnation(), task.candidate);
    if (task.lost && newest == loss.incarnation()) lost.emplace_back(loss.seconds(), id);
  };
  for (const proto::WorkerLoss& loss : losses_) add({proto::WORKER, loss.worker()}, loss);
  for (const proto::ServerLoss& loss : server_losses_) add({proto::PS, loss.server()}, loss);
  std::sort(lost.begin(), lost.end());
  std::vector<TaskId> tasks;
  for (const auto& [seconds, id] : lost) tasks.push_back(id);
  return tasks;
}

bool TaskLosses::awaits_replacement(proto::Role role) const {
  const auto asked = [role](TaskId id) { return role == proto::ROLE_UNKNOWN || id.role == role; };
  for (const auto& [id, task] : roster_.tasks()) {
    if (asked(id) && task.lost && task.candidate > task.member.incarnation()) return true;
  }
  std::vector<TaskId> replaced = Unreplaced();
  replaced.resize(std::min<size_t>(replaced.size(), RestartsLeft()));
  return std::any_of(replaced.begin(), replaced.end(), asked);
}

bool TaskLosses::asking(TaskId id) const {
  const auto it = questions_.find(id);
  return it != questions_.end() && !it->second.unanswered.empty();
}

bool TaskLosses::settling() const {
  return std::any_of(questions_.begin(), questions_.end(), [](const auto& entry) {
    return !entry.second.unanswered.empty() && !entry.second.fence.takes_part();
  });
}

void TaskLosses::OnTookOver(Nanoseconds now, double absent) {
  proto::ChiefLoss& loss = *chief_losses_.Add();
  loss.set_seconds(ToSeconds(now - started_));
  loss.set_absent_seconds(absent);
}

bool TaskLosses::LostChiefSince(Nanoseconds time) const {
  return !chief_losses_.empty() && started_ + FromSeconds(chief_losses_.rbegin()->seconds()) >= time;
}

void TaskLosses::FillAttempt(proto::Attempt& attempt) const {
  attempt.set_lost_workers(losses_.size());
  attempt.set_lost_servers(server_losses_.size());
  attempt.set_lost_chiefs(chief_losses_.size());
}

void TaskLosses::FillSummary(proto::RunSummary& summary) const {
  *summary.mutable_worker_loss() = losses_;
  *summary.mutable_server_loss() = server_losses_;
  *summary.mutable_chief_loss() = chief_losses_;
}

proto::WorkerLoss& TaskLosses::LastOf(TaskId id) {
  const auto last = std::find_if(losses_.rbegin(), losses_.rend(),
                                 [&](const proto::WorkerLoss& loss) { return loss.worker() == id.index; });
  TETHYS_CHECK(last != losses_.rend());
  return *last;
}

void TaskLosses::Save(proto::LossesState& state) const {
  for (const auto& [id, question] : questions_) {
    proto::LossesState::Question& saved = *state.add_question();
    saved.set_worker(id.index);
    *saved.mutable_fence() = question.fence;
    saved.mutable_unanswered()->Assign(question.unanswered.begin(), question.unanswered.end());
    saved.set_lost_at_ns(question.lost_at);
  }
  *state.mutable_loss() = losses_;
  state.set_last_ns(last_);
  *state.mutable_server_loss() = server_losses_;
  *state.mutable_chief_loss() = chief_losses_;
}

absl::Status TaskLosses::Restore(const proto::LossesState& state) {
  StateCheck check;
  std::map<TaskId, Question> questions;
  const auto check_worker = [&](int worker) {
    check.That(roster_.Has({proto::WORKER, worker}), "there is no worker ", worker);
  };
  for (const proto::LossesState::Question& saved : state.question()) {
    check_worker(saved.worker());
    check.That(saved.fence().worker() == saved.worker() || saved.fence().incarnation() == 0,
               "the request about worker ", saved.worker(), " names worker ", saved.fence().worker());
    for (const int server : saved.unanswered()) {
      check.That(roster_.Has({proto::PS, server}), "there is no server ", server);
    }
    check.Time("lost_at_ns", saved.lost_at_ns());
    questions[{proto::WORKER, saved.worker()}] = {
        .fence = saved.fence(),
        .unanswered = {saved.unanswered().begin(), saved.unanswered().end()},
        .lost_at = saved.lost_at_ns()};
  }
  check.Time("last_ns", state.last_ns());
  check.Within("chief_loss", state.chief_loss_size(), 0, plan_.job().max_restarts());
  std::set<TaskId> lost, lost_servers;
  for (const proto::ServerLoss& loss : state.server_loss()) {
    const TaskId server{proto::PS, loss.server()};
    check.That(CopiesShards(plan_) && roster_.Has(server), "server ", loss.server(), " has no copy");
    lost_servers.insert(server);
  }
  for (const proto::WorkerLoss& loss : state.loss()) {
    check_worker(loss.worker());
    check.Count("batches_returned", loss.batches_returned());
    check.Count("unrecorded_samples", loss.unrecorded_samples());
    lost.insert({proto::WORKER, loss.worker()});
  }
  for (const auto& [id, question] : questions) {
    check.That(lost.count(id) > 0, "there is a request about worker ", id.index,
               ", but this worker was never lost");
  }
  for (const auto& [id, task] : roster_.tasks()) {
    const bool recorded = questions.count(id) > 0 || lost_servers.count(id) > 0;
    check.That((!task.lost && !roster_.late(id)) || recorded, TaskName(id.role, id.index),
               " is lost or was replaced, but its loss is not recorded");
  }
  TETHYS_RETURN_IF_ERROR(check.status());
  questions_ = std::move(questions);
  losses_ = state.loss();
  server_losses_ = state.server_loss();
  last_ = state.last_ns();
  chief_losses_ = state.chief_loss();
  return absl::OkStatus();
}

}  // namespace tethys
