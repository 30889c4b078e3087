#include "deploy/launcher/launch_course.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/process/exit_status.h"

namespace tethys {
namespace {

// Seconds added to timeouts.start and timeouts.silence, so that the chief reports a silent task before the
// launcher reports a silent chief.
constexpr double kSilenceMargin = 1;

void AddNote(std::string text, LaunchActions& actions) {
  NoteForUser note;
  note.text = std::move(text);
  actions.emplace_back(std::move(note));
}

}  // namespace

std::string LaunchTask::name() const { return role == "chief" ? role : absl::StrCat(role, " ", index); }

void LaunchCourse::Begin(Nanoseconds now, LaunchActions& actions) {
  Enter(Stage::kRunning, FromSeconds(options_.timeouts.start() + kSilenceMargin), now, actions);
  to_start_.push_back({});
  StartNext(actions);
}

void LaunchCourse::StartNext(LaunchActions& actions) {
  if (!to_start_.empty()) actions.emplace_back(StartTask{to_start_.front()});
}

void LaunchCourse::OnStarted(LaunchActions& actions) {
  tasks_.push_back({to_start_.front()});
  if (to_start_.front().role == "chief") chief_ = tasks_.size() - 1;
  to_start_.pop_front();
  StartNext(actions);
}

void LaunchCourse::OnStartFailed(const absl::Status& status, Nanoseconds now, LaunchActions& actions) {
  to_start_.clear();
  if (lost_chief_.has_value()) {
    FailTakeover();
  } else {
    end_.launch = status;
  }
  Terminate(now, actions);
}

void LaunchCourse::OnInterrupt(int signal, Nanoseconds now, LaunchActions& actions) {
  // If the launch is already ending, an interrupt kills all tasks at once.
  if (ending()) return Enter(Stage::kKilling, kSecond, now, actions);
  const bool again = end_.interrupt != 0;
  if (!end_.verdict.has_value() && end_.lost.empty()) end_.interrupt = signal;
  if (lost_chief_.has_value() && !again) {
    return AddNote("interrupted: the new chief saves a checkpoint; another interrupt ends the job at once",
                   actions);
  }
  if (std::exchange(end_.changes, false)) {
    return AddNote(
        "interrupted: the job ends when the checkpoint is saved; another interrupt ends it at once", actions);
  }
  if (!AskToSave("interrupted", actions)) Terminate(now, actions);
}

void LaunchCourse::OnChange(LaunchActions& actions) {
  if (AskToSave("the numbers of processes change", actions)) end_.changes = true;
}

// On the first request during training, asks the chief to save a checkpoint and end the job. Returns false on
// a later request, or if the chief cannot save a checkpoint now.
bool LaunchCourse::AskToSave(const char* why, LaunchActions& actions) {
  const bool can = stage_ == Stage::kRunning && training_ && end_.lost.empty() && !end_.verdict.has_value() &&
                   !chief_ended() && !lost_chief_.has_value();
  if (!can || asked_to_save_) return false;
  asked_to_save_ = true;
  actions.emplace_back(SignalTask{chief_, SIGINT});
  AddNote(absl::StrCat(why, ": saving a checkpoint",
                       end_.interrupt == 0 ? "" : "; another interrupt ends the job at once"),
          actions);
  return true;
}

void LaunchCourse::OnExit(size_t number, const ProcessExit& exit, LaunchActions& actions) {
  tasks_[number].ended = true;
  const LaunchTask task = tasks_[number].task;
  if (number == chief_ && exit.abrupt() && CanTakeOver()) {
    lost_chief_ = LostTask{task.name(), HostOf(task), exit};
    AddNote(absl::StrCat(ExitOf(*lost_chief_), "; another process takes over"), actions);
    ++end_.restarts;
    to_start_.push_back({task.role, task.index, task.incarnation + 1});
    return StartNext(actions);
  }
  if (number == chief_ && lost_chief_.has_value()) FailTakeover();
  if (Survives(task, exit)) {
    LostTask& lost = end_.survived.emplace_back(LostTask{task.name(), HostOf(task), exit});
    lost.incarnation = task.incarnation;
    lost.given_up = tasks_[number].given_up && exit.signal == SIGKILL;
    // Only a sudden end needs a note here. A task that exited with an error has already reported the error
    // to the chief, in more detail.
    if (exit.abrupt() && !lost.given_up) AddNote(ExitOf(lost), actions);
    failed_.push_back(task);
    // A task that exited with an error may have lost the chief, whose own exit would then follow.
    if (exit.abrupt()) ReplaceFailed(actions);
    return;
  }
  // A worker or server may exit cleanly before the chief reports the end.
  if (ending() || exit.clean()) return;
  end_.lost.push_back({task.name(), HostOf(task), exit, end_.verdict.has_value()});
}

void LaunchCourse::ReplaceFailed(LaunchActions& actions) {
  const bool chief_lives = !chief_ended() && !lost_chief_.has_value();
  if (stage_ != Stage::kRunning || !chief_lives || failed_.empty()) return;
  for (const LaunchTask& task : std::exchange(failed_, {})) {
    if (end_.restarts == options_.max_restarts) break;
    ++end_.restarts;
    to_start_.push_back({task.role, task.index, task.incarnation + 1});
  }
  StartNext(actions);
}

void LaunchCourse::FailTakeover() {
  end_.lost.push_back(*lost_chief_);
  --end_.restarts;  // All processes may start again instead.
}

bool LaunchCourse::CanTakeOver() const {
  return options_.chief_keeps_log && training_ && stage_ == Stage::kRunning && !end_.verdict.has_value() &&
         end_.interrupt == 0 && !asked_to_save_ && end_.lost.empty() && !lost_chief_.has_value() &&
         end_.restarts < options_.max_restarts;
}

bool LaunchCourse::Survives(const LaunchTask& task, const ProcessExit& exit) const {
  // Before training starts, the job needs every worker. So the job continues after the death of a worker only
  // if that worker can be restarted, and ends if a worker reports an error.
  const bool spared =
      training_ || (options_.restarts_before_training && end_.restarts < options_.max_restarts);
  const bool mishap = exit.code == kExitMishap && training_;
  const bool worker = task.role == "worker" && options_.survives_worker_loss;
  // Unlike a worker, a server must be replaced.
  const bool server = task.role == "ps" && options_.survives_server_loss && training_ &&
                      end_.restarts < options_.max_restarts;
  return (worker || server) && ((exit.abrupt() && spared) || mishap) && stage_ == Stage::kRunning;
}

const std::string& LaunchCourse::HostOf(const LaunchTask& task) const {
  if (task.role == "chief") return options_.chief_host;
  return (task.role == "ps" ? options_.server_hosts : options_.worker_hosts)[task.index];
}

void LaunchCourse::OnReport(const proto::ProgressEvent& event, Nanoseconds now, LaunchActions& actions) {
  if (stage_ == Stage::kRunning) deadline_ = now + patience_;
  if (!event.has_finished()) ReplaceFailed(actions);
  if (event.has_listening() && tasks_.size() == 1 && stage_ == Stage::kRunning) {
    const int servers = static_cast<int>(options_.server_hosts.size());
    const int workers = static_cast<int>(options_.worker_hosts.size());
    for (int i = 0; i < servers; ++i) to_start_.push_back({"ps", i});
    for (int i = 0; i < workers; ++i) to_start_.push_back({"worker", i});
    StartNext(actions);
  } else if (event.has_started() && stage_ == Stage::kRunning) {
    training_ = true;
    Enter(Stage::kRunning, FromSeconds(options_.timeouts.silence() + kSilenceMargin), now, actions);
  } else if (event.has_took_over()) {
    lost_chief_.reset();
    chief_killed_ = false;
    AddNote(absl::StrFormat("the new chief goes on where the lost chief was, after %.1f s without a chief",
                            event.took_over().absent_seconds()),
            actions);
    if (end_.interrupt != 0) AskToSave("interrupted", actions);
  } else if (event.has_task_lost()) {
    EndLostTask(event.task_lost(), actions);
  } else if (event.has_progress()) {
    end_.last_step = event.progress().step();
  } else if (event.has_epoch()) {
    end_.last_step = event.epoch().step();
  } else if (event.has_finished()) {
    end_.verdict = event.finished();
    if (stage_ != Stage::kRunning) return;
    const bool ok = event.finished().ok();
    Enter(Stage::kSettling, ok ? FromSeconds(options_.timeouts.shutdown()) : options_.verdict_grace, now,
          actions);
  }
}

// Kills a process that the chief has declared lost. The process may still be alive, but stopped or cut off
// from the chief.
void LaunchCourse::EndLostTask(const proto::TaskLost& lost, LaunchActions& actions) {
  const LaunchTask task = {lost.role(), static_cast<int>(lost.index()), static_cast<int>(lost.incarnation())};
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].task != task || tasks_[i].ended) continue;
    tasks_[i].given_up = true;
    actions.emplace_back(SignalTask{i, SIGKILL});
  }
}

void LaunchCourse::OnTick(Nanoseconds now, LaunchActions& actions) {
  if (!ending() && !end_.verdict.has_value() && !tasks_.empty()) {
    if (chief_ended()) {
      Terminate(now, actions);
    } else if (!end_.lost.empty() && stage_ == Stage::kRunning) {
      Enter(Stage::kSettling, options_.verdict_grace, now, actions);
    }
  }
  if (now >= deadline_) OnDeadline(now, actions);
}

void LaunchCourse::OnDeadline(Nanoseconds now, LaunchActions& actions) {
  switch (stage_) {
    case Stage::kRunning:
      if (CanTakeOver() && !std::exchange(chief_killed_, true)) {
        AddNote(absl::StrCat("chief on ", options_.chief_host, " has reported nothing for ",
                             ToSeconds(patience_), " s: the launcher kills it"),
                actions);
        actions.emplace_back(SignalTask{chief_, SIGKILL});
        deadline_ = now + patience_;
        return;
      }
      end_.chief_silent_for = ToSeconds(patience_);
      [[fallthrough]];
    case Stage::kSettling:
      NoteStragglers(actions);
      return Terminate(now, actions);
    case Stage::kTerminating:
      return Enter(Stage::kKilling, kSecond, now, actions);
    case Stage::kKilling:
      actions.emplace_back(DisconnectHosts{});
      return Enter(Stage::kKilling, kSecond, now, actions);
  }
}

// Tells the user which tasks are still running although the job is done.
void LaunchCourse::NoteStragglers(LaunchActions& actions) {
  if (!end_.verdict.has_value() || !end_.verdict->ok()) return;
  for (const Started& started : tasks_) {
    if (started.ended) continue;
    AddNote(absl::StrCat(started.task.name(), " did not end by itself; the launcher ended it"), actions);
  }
}

void LaunchCourse::Terminate(Nanoseconds now, LaunchActions& actions) {
  Enter(Stage::kTerminating, FromSeconds(options_.timeouts.shutdown()), now, actions);
}

void LaunchCourse::Enter(Stage stage, Nanoseconds patience, Nanoseconds now, LaunchActions& actions) {
  stage_ = stage;
  patience_ = patience;
  deadline_ = now + patience;
  if (!ending()) return;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (!tasks_[i].ended)
      actions.emplace_back(SignalTask{i, stage == Stage::kTerminating ? SIGTERM : SIGKILL});
  }
}

bool LaunchCourse::ended() const {
  return to_start_.empty() &&
         std::all_of(tasks_.begin(), tasks_.end(), [](const Started& started) { return started.ended; });
}

}  // namespace tethys
