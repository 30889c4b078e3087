// Input: messages of tasks to the chief, as a script. The first line names a strategy. Each further line is
// an event:
//
//   w0 join { host: "a" }    worker 0 sends this proto::FromTask; p1 is server 1
//   admit w0 2               incarnation 2 of worker 0 asks to be admitted; it sends w0's messages afterwards
//   gone w0                  the session of worker 0's newest incarnation ends
//   pass 0.5                 half a second passes
//   disk full                saves cannot be opened from now on
//   disk failing             saves cannot be committed
//   disk well                saves succeed
//
// All first incarnations are admitted before the first event. Every event also goes to a controller that was
// restored from the state before the event.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/chief/journal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/text_message.h"
#include "tests/runtime/chief/restored_controller.h"

namespace tethys::fuzz {
namespace {

constexpr int kWorkers = 2, kServers = 2;
constexpr int64_t kTrainSamples = 20;

proto::JobPlan Plan(absl::string_view strategy) {
  constexpr char kJob[] =
      "workers: 2 epochs: 2 evaluate_each_epoch: true max_restarts: 2 checkpoint { every_epochs: 1 } "
      "timeouts { start: 60 silence: 10 step: 30 shutdown: 3 } strategy { ";
  proto::JobPlan plan;
  const std::map<absl::string_view, std::string> strategies = {
      {"mirrored", "mirrored {}"},
      {"ps_sync", "parameter_server { servers: 2 bulk_synchronous {} }"},
      {"ps_async", "parameter_server { servers: 2 asynchronous {} }"},
      {"ps_async_copied", "parameter_server { servers: 2 replicas: 2 asynchronous {} }"},
      {"ps_stale", "parameter_server { servers: 2 stale_synchronous { bound: 1 } }"},
      {"ps_async_data", "parameter_server { servers: 2 asynchronous {} } } data { sharding: DATA"},
      {"ps_stale_data",
       "parameter_server { servers: 2 stale_synchronous { bound: 1 } } } data { sharding: DATA"}};
  const auto chosen = strategies.find(strategy);
  const std::string& text = chosen == strategies.end() ? strategies.begin()->second : chosen->second;
  Require(ParseText(absl::StrCat(kJob, text, " }"), *plan.mutable_job()), text);
  plan.set_train_samples(kTrainSamples);
  plan.set_validation_samples(2);
  plan.set_test_samples(4);
  plan.set_global_batch(10);
  plan.set_batch_per_worker(5);
  if (!plan.job().strategy().has_parameter_server()) return plan;
  plan.mutable_placement()->set_servers(kServers);
  for (int i = 0; i < kServers; ++i) plan.mutable_placement()->add_shard()->set_server(i);
  return plan;
}

class Play {
 public:
  explicit Play(const proto::JobPlan& plan)
      : controller_(plan, Start(), false, StatisticsBook(plan.job().workers(), {}), now_,
                    [](const std::string& difference) { Require(false, difference); }) {
    for (int i = 0; i < kWorkers; ++i) Admit({proto::WORKER, i}, 1);
    for (int i = 0; i < plan.placement().servers(); ++i) Admit({proto::PS, i}, 1);
  }

  void Line(absl::string_view line) {
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double seconds = 0;
    if (words.first == "admit") {
      const std::pair<absl::string_view, absl::string_view> who =
          absl::StrSplit(words.second, absl::MaxSplits(' ', 1));
      uint32_t incarnation = 0;
      if (absl::SimpleAtoi(who.second, &incarnation)) Admit(Task(who.first), incarnation);
    } else if (words.first == "gone") {
      Gone(Task(words.second));
    } else if (words.first == "pass") {
      if (absl::SimpleAtod(words.second, &seconds) && seconds >= 0 && seconds < 100) Pass(seconds);
    } else if (words.first == "disk") {
      disk_ = std::string(words.second);
    } else {
      Say(Task(words.first), words.second);
    }
  }

  // Lets all tasks be silent, and requires that this ends the job, whatever messages came before. (A longer
  // step of time would count as a pause of the chief itself and not as silence of the tasks.)
  void End() {
    for (int i = 0; i < 100 && !ended_; ++i) Pass(4);
    Require(ended_, "a job without messages ends");
    proto::RunSummary summary;
    controller_.FillSummary(now_, summary);
    if (!status_.ok()) return;
    Require(summary.epochs() == 2, "a job that ends well is complete");
    Require(summary.test().samples() == 4, "a job that ends well is tested on every sample");
  }

 private:
  static proto::TrainingState Start() {
    proto::TrainingState state;
    state.set_train_samples(kTrainSamples);
    return state;
  }

  // The task named by "w1" or "p0".
  static TaskId Task(absl::string_view word) {
    int index = -1;
    const bool known = !word.empty() && absl::SimpleAtoi(word.substr(1), &index);
    return {!known ? proto::ROLE_UNKNOWN : word[0] == 'p' ? proto::PS : proto::WORKER, index};
  }

  void Admit(TaskId task, uint32_t incarnation) {
    if (controller_.Admit(task, incarnation, now_).ok()) lives_[task].push_back(incarnation);
  }
  void Gone(TaskId task) {
    const auto life = lives_.find(task);
    if (life == lives_.end() || life->second.empty()) return;
    const uint32_t incarnation = life->second.back();
    life->second.pop_back();
    Step([&](Actions& actions) { controller_.OnGone(task, incarnation, now_, actions); });
  }
  void Pass(double seconds) {
    now_ += FromSeconds(seconds);
    Step([&](Actions& actions) { controller_.OnTick(now_, actions); });
  }
  void Say(TaskId task, absl::string_view text) {
    const auto life = lives_.find(task);
    if (life == lives_.end() || life->second.empty()) return;
    proto::FromTask message;
    if (!ParseText(text, message)) return;
    // The network refuses strings that are not UTF-8.
    if (!message.ParseFromString(message.SerializeAsString())) return;
    Step([&](Actions& actions) { controller_.OnMessage(task, life->second.back(), message, now_, actions); });
  }

  // Carries out the actions that `event` causes, as the chief process does.
  template <typename Event>
  void Step(const Event& event) {
    if (ended_) return;
    Actions actions;
    event(actions);
    for (const Action& action : actions) {
      Require(!ended_, "nothing follows the end");
      Do(action);
    }
  }
  void Do(const Action& action) {
    if (const auto* line = absl::get_if<WriteJournal>(&action)) {
      Require(line->line.find('\n') == line->line.size() - 1,
              absl::StrCat("a line of the journal: ", line->line));
    } else if (absl::holds_alternative<OpenSave>(action)) {
      Require(!saving_, "one save at a time");
      saving_ = disk_ != "full";
      const absl::Status status = saving_ ? absl::OkStatus() : absl::ResourceExhaustedError("full");
      Step([&](Actions& actions) { controller_.SaveOpened(status, now_, actions); });
    } else if (absl::holds_alternative<CommitSave>(action)) {
      Require(saving_, "a save that is committed is open");
      saving_ = false;
      const absl::Status status = disk_ == "failing" ? absl::DataLossError("failing") : absl::OkStatus();
      Step([&](Actions& actions) { controller_.SaveCommitted(status, "step-2", now_, actions); });
    } else if (absl::holds_alternative<AbandonSave>(action)) {
      saving_ = false;
    } else if (const auto* end = absl::get_if<EndJob>(&action)) {
      ended_ = true;
      status_ = end->status;
    }
  }

  Nanoseconds now_ = kSecond;
  RestoredController controller_;
  std::map<TaskId, std::vector<uint32_t>> lives_;  // For each task, the incarnations with open sessions.
  std::string disk_;
  bool saving_ = false;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace

void FuzzChief(absl::string_view input) {
  std::vector<absl::string_view> lines = absl::StrSplit(input, '\n');
  Play play(Plan(lines[0]));
  for (size_t i = 1; i < lines.size(); ++i) play.Line(lines[i]);
  play.End();
}

}  // namespace tethys::fuzz
